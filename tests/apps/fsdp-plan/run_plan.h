// Starts fsdp-plan.
#pragma once

#include <string>

#include "apps/command.h"

inline Ending run_plan(const std::string& arguments) { return run_command(FSDP_PLAN_PROGRAM " " + arguments); }
