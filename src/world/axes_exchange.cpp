#include "world/axes_exchange.h"

#include <cstdint>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "collectives/plain_value.h"
#include "world/this_host.h"

namespace fsdp::world {

namespace {

// The message of a rank. Texts end with a zero; longer ones are cut off, and end with dots.
struct SentAxes {
  int64_t host = 0;
  uint64_t axes_hash = 0;
  char host_name[64] = {};
  char axes[944] = {};
};
static_assert(sizeof(SentAxes) == 1024);

template <size_t kBytes>
void write_text(char (&field)[kBytes], const std::string& text) {
  const std::string shown = text.size() < kBytes ? text : text.substr(0, kBytes - 4) + "...";
  std::memcpy(field, shown.c_str(), shown.size() + 1);
}

torch::Tensor to_send(const std::vector<std::string>& axes) {
  SentAxes sent;
  sent.host = host_fingerprint();
  sent.axes_hash = std::hash<std::string>()(fmt::format("{}", axes));  // quoted: no two lists have one text
  write_text(sent.host_name, host_name());
  write_text(sent.axes, fmt::format("{}", fmt::join(axes, " x ")));
  return collectives::bytes_of_value(sent);
}

}  // namespace

std::vector<HostOfRank> exchange_axes(State& state, const std::string& call, const std::vector<std::string>& axes) {
  const std::vector<torch::Tensor> all = state.group().all_gather(to_send(axes), "calls " + call);
  const auto first = collectives::value_of_bytes<SentAxes>(all[0]);
  std::vector<HostOfRank> hosts;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto theirs = collectives::value_of_bytes<SentAxes>(all[rank]);
    FSDP_CHECK(theirs.axes_hash == first.axes_hash,
               "{}: rank {} found the axes {}, expected {} as on rank {}. Pass the same axes on every rank.", call,
               state.world_ranks()[rank], theirs.axes, first.axes, state.world_ranks()[0]);
    hosts.push_back({theirs.host, theirs.host_name});
  }
  return hosts;
}

}  // namespace fsdp::world
