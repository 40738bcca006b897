// Threads that compute wait without spinning.
//
// LibTorch's operators share their work among the threads of OpenMP, which wait for each other thousands of times per
// step. By default a waiting thread spins for some milliseconds before it sleeps. Beside another busy program it then
// spins on the core that the awaited thread needs, and a step takes 10 to 20 times as long.
#pragma once

#include <string_view>

namespace trainer {

// Returns whether the command computes with threads. `word`: the first argument of the program, empty where there is
// none.
bool computes(std::string_view word);

// Lets waiting threads sleep at once (OMP_WAIT_POLICY=passive), unless OMP_WAIT_POLICY or GOMP_SPINCOUNT is set. OpenMP
// reads the environment when it is loaded, before main: so this executes the program anew, once, in the same process.
// To be called before anything is read or started. If the program cannot be executed anew, it goes on as it is.
void wait_passively(char** arguments);

}  // namespace trainer
