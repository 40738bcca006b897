// How messages call the ranks of a job: this one as "rank 3/8", and any one by its number and its place on a mesh.
//
// A rank is a process, or a thread of one. The names belong to the rank. The threads that work for a rank share its
// names (rank_thread.h). Any thread.
#pragma once

#include <string>
#include <vector>

namespace fsdp {

// How messages begin: " rank 3/8" once the rank is known, "" before.
std::string text_of_this_rank();
void set_this_rank(int rank, int size);

// "rank 5", or "rank 5 (data 1, pipeline 0, tensor 1)" if the rank has a place.
std::string text_of_rank(int rank);

bool is_on_mesh(int rank);

// Gives places to ranks: `places[i]` is that of ranks[i], such as "data 1, tensor 1". A rank keeps the place that it
// has among more ranks, so a mesh within a mesh changes none. Among as many ranks the latest place counts. One rank
// alone gets none.
void set_places(const std::vector<int>& ranks, const std::vector<std::string>& places);

}  // namespace fsdp
