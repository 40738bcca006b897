#include "repetitions.h"

#include <chrono>

namespace contestant {

void compute_for_a_moment() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (std::chrono::steady_clock::now() < end) {
  }
}

Json measure(const Json& command, const std::function<void()>& operation) {
  compute_for_a_moment();
  operation();
  Json seconds = Json::array();
  for (int64_t i = 0; i < command.at("repetitions"); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    operation();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    seconds.push_back(elapsed.count());
  }
  return {{"seconds", seconds}};
}

}  // namespace contestant
