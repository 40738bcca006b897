// The pace of the tests: waits for signs of life last a part of what they last for users (base/pace.h).
#pragma once

#include <chrono>
#include <thread>

namespace fsdp::testing {

constexpr int kPace = 10;

// Of a rank that is slow, or absent: `usual` is what it would take among users to be noticed, or not to be.
inline void sleep_paced(std::chrono::milliseconds usual) { std::this_thread::sleep_for(usual / kPace); }

}  // namespace fsdp::testing
