#include "world/membership.h"

#include <functional>

#include "base/error.h"
#include "collectives/group.h"
#include "world/keyed_hash.h"

namespace fsdp::world {

namespace {

std::string key_of_member(int rank) { return fmt::format("fsdp/member/{}", rank); }

std::string proof_of(const JobSecret& secret, int rank) {
  return in_hexadecimal(keyed_hash(secret.text, "member", std::to_string(rank)));
}

}  // namespace

void check_members(c10d::Store& store, const JobSecret& secret, const Identity& identity, const std::string& place) {
  const auto ask = [&](int rank, const std::function<std::string(const std::string& key)>& question) {
    try {
      return question(key_of_member(rank));
    } catch (const std::exception& failure) {
      const std::string reason = failure.what();
      throw collectives::PeerLost(fmt::format(
          "{}rank {} was not found at the job's store {}: {}. Check that every rank starts within {} ms; if "
          "one has failed, see its own message.",
          message_prefix(), rank, place, reason.substr(0, reason.find('\n')), store.getTimeout().count()));
    }
  };
  const auto check = [&](int rank, const std::string& proof) {
    FSDP_CHECK(are_equal(proof, proof_of(secret, rank)),
               "rank {} at the job's store {} has another secret than this rank (whose secret is: {}). Set "
               "FSDP_JOB_SECRET alike on every rank; if it is, another job is there, and this one needs a MASTER_PORT "
               "of its own.",
               rank, place, secret.source);
  };
  const auto get = [&](const std::string& key) { return store.get_to_str(key); };
  const int own = identity.rank;
  // Rank 0's first: once it knows of a stranger, the store ends with it.
  const std::string first = own == 0 ? "" : ask(0, get);
  const auto leave = [&](const std::string& key) { return store.compareSet(key, "", proof_of(secret, own)); };
  const std::string left = ask(own, leave);
  if (own != 0) check(0, first);
  check(own, left);
  for (int rank = 1; own == 0 && rank < identity.size; ++rank) check(rank, ask(rank, get));
}

}  // namespace fsdp::world
