// One thing that `fsdp-train doctor` has looked at.
#pragma once

#include <string>
#include <vector>

namespace trainer {

// A note is for what could be better; a problem keeps fsdp-train from training.
enum class Verdict { Ok, Note, Problem };

struct Finding {
  Verdict verdict = Verdict::Ok;
  std::string subject;    // a word or two
  std::string text;       // what was found, and for a note or a problem what that means
  std::string mend = {};  // lines of a shell that mend it; empty: there is nothing to do
};

struct Findings {
  std::string title;
  std::vector<Finding> findings;
};

}  // namespace trainer
