// A secret that the ranks of a job share: the key of their store.
//
// A pure function of the environment: FSDP_JOB_SECRET, or else what the launcher gave every rank.
#pragma once

#include <map>
#include <string>

namespace fsdp::world {

struct JobSecret {
  std::string text = {};
  std::string source = {};       // in words, for messages
  bool others_can_guess = true;  // it keeps strayed ranks apart, but no attacker out
};

JobSecret find_secret(const std::map<std::string, std::string>& environment);

}  // namespace fsdp::world
