// Three blocks whose weights are tied: each to itself, or all to the first one's.
#pragma once

#include "support/models.h"

namespace fsdp::testing_models {

enum class Tied { Within, Across };           // units
enum class StepBegins { WithUse, WithView };  // of parameters

// Matrices of [rows, width] elements.
TestModel make_tied(Tied tied, int64_t rows = 16, int64_t width = 16, StepBegins begins = StepBegins::WithUse);

}  // namespace fsdp::testing_models
