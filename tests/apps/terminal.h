// A real terminal: tmux is one that can be read.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "support/temporary_folder.h"

class Terminal {
 public:
  static bool can_be_had() { return run_command("tmux -V").code == 0; }

  // Its socket is in the folder.
  explicit Terminal(const TemporaryFolder& folder) : socket_(folder / "socket") {}
  ~Terminal() { tmux("kill-server"); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Ending tmux(const std::string& arguments) const;
  // Starts a command of the shell in a window of 16 rows.
  void start(int width, const std::string& command);
  void resize(int width);

  // The lines of the screen, without the empty ones at its end, after those that were scrolled away: a terminal that
  // becomes narrower wraps its lines, and moves the first ones out.
  std::vector<std::string> screen() const;

  // The screen when the condition holds for it, or after a time in which it should have.
  template <typename Condition>
  std::vector<std::string> screen_when(Condition condition) const {
    std::vector<std::string> lines = screen();
    for (int tries = 0; tries < 400 && !condition(lines); ++tries) {
      pause();
      lines = screen();
    }
    return lines;
  }

  // The lowest line is a bar of a million steps, of at most `width` - 1 columns and with `part` in it, and there is no
  // other, now and while it goes on. `above`: how many lines there are above it, where that is known.
  void expect_one_bar(int width, const std::string& part, std::optional<size_t> above = std::nullopt) const;

 private:
  static void pause();

  std::string socket_;
};
