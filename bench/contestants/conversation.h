// How a program of the comparison is told what to do: a line of JSON on its standard input, {"do": "steps", ...}, which
// it answers by a line of JSON on its standard output. Between commands it sleeps, so that many contestants can be
// there at once and take turns.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace contestant {

using Json = nlohmann::json;
// Functions by the command's "do"; each returns the answer.
using Deeds = std::map<std::string, std::function<Json(const Json& command)>>;

// Of one process, made before anything writes to standard output: from then on only answers reach it, and what
// libraries print goes to standard error.
class Conversation {
 public:
  Conversation();
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Says {"ready": true}, and then answers until the input ends. Throws for a command that is not among the deeds.
  void answer(const Deeds& deeds);

 private:
  void say(const Json& answer);

  int output_;
};

}  // namespace contestant
