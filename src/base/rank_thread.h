// Threads that are ranks, and threads that work for a rank.
//
// A process is one rank as a rule, and all of its threads belong to it. Where threads are ranks, each opens a
// RankScope. The library starts its own threads with `of_this_rank`, so that their messages name the right rank.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

namespace fsdp {

// The names that belong to a rank (rank_names.h).
struct RankNames;

// While one lives, the calling thread belongs to a rank that is no other thread's, or to the rank of another thread.
class RankScope {
 public:
  // A rank of its own, which has no names yet.
  RankScope();
  explicit RankScope(std::shared_ptr<RankNames> rank);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

  // The rank that the calling thread belongs to.
  static std::shared_ptr<RankNames> current();

 private:
  std::shared_ptr<RankNames> before_;
};

// `body` for a thread that belongs to the rank of the calling one.
template <typename Body>
auto of_this_rank(Body body) {
  return [ rank = RankScope::current(), body = std::move(body) ]<typename... Arguments>(
      Arguments && ... arguments) mutable requires std::invocable<Body&, Arguments...> {
    const RankScope scope(std::move(rank));
    body(std::forward<Arguments>(arguments)...);
  };
}

}  // namespace fsdp
