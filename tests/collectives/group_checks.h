// Checks that every backend has to pass, as one rank of a group.
#pragma once

#include "collectives/group.h"

namespace fsdp::collectives {

// The values of gradients: whole numbers have sums without an order.
enum class Values { Any, Whole };

// Gathers units of several layouts and dtypes, again after each write.
void check_gather(Group& group);
// Units of which the group may keep nothing from one gather to the next.
void check_gather_each_time(Group& group);
// Writes where no rank waits for another, or in any order.
void check_writes_in_any_order(Group& group);
// Reduces over several micro-batches with random flags, and compares the bits with one loop over all gradients.
void check_reduce(Group& group, Values values = Values::Any);
// Exchanges in which some tensors are missing, and sums of parts of tensors.
void check_exchanges(Group& group, torch::Device device);
// Tensors from each rank to the next.
void check_messages_of_two(Group& group, torch::Device device);
// The two, and all_reduce_, broadcast_, all_gather and barrier, for sizes on both sides of every threshold. On the CPU.
void check_whole_tensors(Group& group);

}  // namespace fsdp::collectives
