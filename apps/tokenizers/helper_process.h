// A program that answers requests, one after the other, and lives as long as its caller.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "files/reading.h"

namespace tokenizers {

// Owned by the process that made it: one that was forked from it has to make its own (`is_mine`). One thread at a time.
// All errors are fsdp::Error, and mean that the process is of no use any more, but for Refusal.
class HelperProcess {
 public:
  // Its answer to a question that it cannot answer otherwise; it goes on.
  struct Refusal {
    std::string why;
  };

  static constexpr int kMostSilence = 120;  // seconds

  // Starts it with a socket as its standard input; its outputs are dropped. Signals of a terminal do not reach it. It
  // may be silent for `most_silence` seconds in which this process runs.
  explicit HelperProcess(const std::vector<std::string>& command, int most_silence = kMostSilence);
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  bool is_mine() const;
  // Messages as hugging_face_helper.py has them. Throws Refusal, or fsdp::Error where the process has ended, is silent
  // for too long, or answers with more than kLongestAnswer bytes.
  std::string ask(char question, std::string_view payload);
  // An answer that comes unasked.
  std::string answer();

  static constexpr uint64_t kLongestAnswer = uint64_t{1} << 30;

 private:
  void wait_until(short ready);
  void send(std::string_view bytes);
  void receive(char* bytes, size_t size);
  [[noreturn]] void has_ended();

  std::string program_;
  int most_silence_;
  pid_t owner_ = -1, process_ = -1;
  fsdp::files::Descriptor channel_;
};

}  // namespace tokenizers
