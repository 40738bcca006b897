// Cuts of a model's blocks into stages: how many blocks, from the first one on, each stage has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp::stages {

// Blocks per stage such that the largest cost of a stage is least. Among equal ones, the stages differ least: the sum
// of the squares of their costs is least. Among equal ones of these, earlier stages have more blocks. Each stage has a
// block. Throws Error for fewer blocks than stages, no stages, or a cost that is not from 0 to 1e100.
//
// Exact but for rounding: values that differ by less than a billionth are equal. Takes stages * blocks^2 operations.
std::vector<int> even_cuts(const std::vector<double>& costs, int stages);

// Reads blocks per stage: "4,4,3,1", or "4*2,3,1", in which "4*2" are two stages of 4 blocks. Throws Error, with a
// notation that would work, unless there are `stages` stages of at least 1 block that have `blocks` blocks together.
//
// The notation is Megatron's pipeline_model_parallel_layout as far as stages of equal blocks need it.
// "Ettt|(tt|)*29,mL" names embedding and loss, too; here these are blocks like others.
std::vector<int> read_cuts(std::string_view text, int blocks, int stages);
// The shortest such text: "4*2,3,1".
std::string to_string(const std::vector<int>& cuts);

}  // namespace fsdp::stages
