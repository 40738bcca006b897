// How messages call a rank: by its number in the job, and by its place on a mesh.
//
// A process is part of one job, as in message_prefix (error.h). Any thread.
#pragma once

#include <string>
#include <vector>

namespace fsdp {

// "rank 5", or "rank 5 (data 1, pipeline 0, tensor 1)" if the rank has a place.
std::string text_of_rank(int rank);

bool is_on_mesh(int rank);

// Gives places to ranks: `places[i]` is that of ranks[i], such as "data 1, tensor 1". A rank keeps the place that it
// has among more ranks, so a mesh within a mesh changes none. Among as many ranks the latest place counts. One rank
// alone gets none.
void set_places(const std::vector<int>& ranks, const std::vector<std::string>& places);

}  // namespace fsdp
