#include "collectives/shm/lending.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

constexpr char kLoansVariable[] = "FSDP_SHM_LOANS";

bool may_lend() {
  const char* variable = std::getenv(kLoansVariable);
  const std::string word = variable ? variable : "";
  FSDP_CHECK(word.empty() || word == "off",
             "the environment has {}='{}', expected off. Unset it to let the ranks find out.", kLoansVariable, word);
  return word.empty();
}

bool is_true_of_all(Exchange& exchange, bool own) {
  return std::ranges::all_of(exchange.tell(uint8_t{own}), std::identity());
}

}  // namespace

Lending choose_lending(Exchange& exchange) {
  Lending lending{.own = std::make_shared<ProcessWord>(), .peers = {}};
  const bool may = may_lend();
  for (const ProcessAddress& address : exchange.tell(lending.own->address())) lending.peers.emplace_back(address);
  const auto can_read_all = [&] { return may && std::ranges::all_of(lending.peers, &ProcessMemory::is_readable); };
  if (is_true_of_all(exchange, can_read_all())) return lending;
  if (!is_true_of_all(exchange, may)) return {};
  let_siblings_read();
  exchange.round();  // all ranks have permitted it
  return is_true_of_all(exchange, can_read_all()) ? lending : Lending();
}

}  // namespace fsdp::collectives::shm
