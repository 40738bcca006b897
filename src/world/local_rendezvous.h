// How the ranks of one host find each other when all that they know is the job's name.
//
// Rank 0 listens on a socket of that name and gives every rank that comes the one file that all share: an anonymous
// one, which nothing but its holders keeps. The name is no file either (unix(7), "abstract"): the kernel forgets it
// with the process, so a job that was killed leaves nothing that the next one of its name could mistake for itself.
// Both sides make sure that the other is a process of the same user.
#pragma once

#include <chrono>
#include <string>

#include "files/reading.h"

namespace fsdp::world {

// The file that the ranks of the job share. Every rank of it calls this at about the same time. Throws Error when not
// all have come within `timeout`, counted in time in which this process ran.
files::Descriptor rendezvous_on_host(const std::string& job, int rank, int size, std::chrono::milliseconds timeout);

// A file without a name that lives as long as a process has it open.
files::Descriptor make_anonymous_file();
// A path under which this process, and no other, can open it again.
std::string path_of(const files::Descriptor& file);

}  // namespace fsdp::world
