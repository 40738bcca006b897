// The description of fsdp-train, made from its tables of commands and options.
#pragma once

#include "manual/program.h"

namespace trainer {

const Program& train_program();

}  // namespace trainer
