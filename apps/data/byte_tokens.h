// A text whose bytes are its tokens: read where it lies, with nothing encoded before.
#pragma once

#include <memory>

#include "data/text_files.h"
#include "data/token_source.h"

namespace data {

Tokens byte_tokens(std::shared_ptr<const TextFiles> text);

}  // namespace data
