#include "collectives/first_messages.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "collectives/tags.h"

namespace fsdp::collectives {

namespace {

// A rank's first message.
struct First {
  static constexpr size_t kMostBytes = 512 - sizeof(CallFacts::Numbers) - 2 * sizeof(int64_t);

  CallFacts::Numbers numbers = {};
  int64_t sender = kNoRank;
  int64_t bytes = 0;
  char within[kMostBytes] = {};

  bool is_whole() const { return bytes <= static_cast<int64_t>(kMostBytes); }
  // Returns whether `rank` sends a second message, if this is its call.
  bool has_second(int rank) const { return !is_whole() && (sender == kEveryRank || sender == rank); }
  bool same_call(const First& other) const {
    return numbers == other.numbers && sender == other.sender && bytes == other.bytes;
  }
};
static_assert(sizeof(First) == 512);

First first_of(const SharedBytes& shared, const CallFacts& facts, int rank) {
  First first{facts.own, shared.sender, static_cast<int64_t>(shared.bytes)};
  if (first.is_whole() && shared.comes_from(rank) && shared.bytes > 0)
    std::memcpy(first.within, shared.own, shared.bytes);
  return first;
}

// One message for each peer: if the facts differ, some peers do not take theirs.
Messages begin_second(Transport& transport, const SharedBytes& shared) {
  Messages messages;
  messages.reserve(2 * static_cast<size_t>(transport.size()));
  for (int peer : transport.peers()) {
    if (shared.comes_from(peer))
      messages.push_back(transport.receive(shared.into[peer], shared.bytes, peer, shared.tag));
  }
  for (int peer : transport.peers()) {
    if (shared.comes_from(transport.rank()))
      messages.push_back(transport.send(shared.own, shared.bytes, peer, shared.tag));
  }
  return messages;
}

// Completes the second messages that peers have begun, and this rank has not.
void wait_for_those_of_peers(Transport& transport, const std::vector<First>& firsts, Messages begun) {
  const int rank = transport.rank();
  std::vector<std::vector<char>> dropped;
  Messages messages = std::move(begun);  // destroyed before their memory
  const auto any_bytes = [&](int64_t bytes) { return dropped.emplace_back(bytes).data(); };
  for (int peer : transport.peers()) {
    const First &own = firsts[rank], &theirs = firsts[peer];
    const auto is_begun_by_peer_alone = [&](int sender) {
      return theirs.has_second(sender) && !(own.has_second(sender) && own.bytes == theirs.bytes);
    };
    const int tag = share_tag(theirs.bytes);
    if (is_begun_by_peer_alone(peer))
      messages.push_back(transport.receive(any_bytes(theirs.bytes), theirs.bytes, peer, tag));
    if (is_begun_by_peer_alone(rank))
      messages.push_back(transport.send(any_bytes(theirs.bytes), theirs.bytes, peer, tag));
  }
  transport.wait_all(messages);
}

}  // namespace

void share(Transport& transport, const SharedBytes& shared) {
  Messages messages;
  messages.reserve(2 * static_cast<size_t>(transport.size()));
  for (int peer : transport.peers()) {
    if (shared.comes_from(peer))
      messages.push_back(transport.receive_shared(shared.into[peer], shared.bytes, peer, shared.tag));
  }
  if (shared.comes_from(transport.rank())) transport.share(shared.own, shared.bytes, shared.tag, messages);
  if (!messages.empty()) transport.wait_all(messages);
}

void share_with_facts(Transport& transport, const SharedBytes& shared, CallFacts& facts) {
  const int rank = transport.rank();
  std::vector<First> firsts(transport.size());
  firsts[rank] = first_of(shared, facts, rank);
  const First& own = firsts[rank];
  Messages first, second;
  first.reserve(2 * static_cast<size_t>(transport.size()));
  for (int peer : transport.peers())
    first.push_back(transport.receive_shared(&firsts[peer], sizeof(First), peer, kFactsTag));
  transport.share(&own, sizeof(First), kFactsTag, first);
  if (!own.is_whole()) second = begin_second(transport, shared);
  transport.wait_all(first);
  if (!std::all_of(firsts.begin(), firsts.end(), [&](const First& one) { return one.same_call(own); })) {
    for (const First& one : firsts) facts.of_ranks.push_back(one.numbers);
    return wait_for_those_of_peers(transport, firsts, std::move(second));
  }
  transport.wait_all(second);
  for (int peer : transport.peers()) {
    if (own.is_whole() && shared.bytes > 0 && shared.comes_from(peer))
      std::memcpy(shared.into[peer], firsts[peer].within, shared.bytes);
  }
}

}  // namespace fsdp::collectives
