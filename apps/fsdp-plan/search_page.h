// The result of fsdp-plan search, as a page.
#pragma once

#include <string>

#include "fsdp-plan/search_arguments.h"

namespace planner {

// `json` is that of --json. There is at least one setting.
std::string search_page(const SearchArguments& arguments, const trainer::SearchResult& result, const std::string& json);

}  // namespace planner
