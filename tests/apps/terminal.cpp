#include "apps/terminal.h"

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "apps/columns.h"

namespace {

bool is_bar(const std::string& line) {
  return line.find("/1000000 ") != std::string::npos && line.find("validation") == std::string::npos;
}

}  // namespace

Ending Terminal::tmux(const std::string& arguments) const {
  return run_command("tmux -u -f /dev/null -S " + socket_ + " " + arguments);
}

void Terminal::start(int width, const std::string& command) {
  const Ending ending = tmux("new-session -d -x " + std::to_string(width) + " -y 16 \"" + command + "\"");
  ASSERT_EQ(ending.code, 0) << ending.output;
}

void Terminal::resize(int width) { ASSERT_EQ(tmux("resize-window -y 16 -x " + std::to_string(width)).code, 0); }

std::vector<std::string> Terminal::screen() const {
  std::istringstream text(tmux("capture-pane -p -S -").output);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

void Terminal::expect_one_bar(int width, const std::string& part, std::optional<size_t> above) const {
  const auto is_one_bar = [&](const std::vector<std::string>& lines) {
    return std::count_if(lines.begin(), lines.end(), is_bar) == 1 && is_bar(lines.back()) &&
           lines.back().find(part) != std::string::npos && columns(lines.back()) < width &&
           lines.size() == above.value_or(lines.size() - 1) + 1;
  };
  screen_when(is_one_bar);
  for (int i = 0; i < 5; ++i) {
    const std::vector<std::string> lines = screen();
    EXPECT_TRUE(is_one_bar(lines)) << testing::PrintToString(lines);
    pause();
  }
}

void Terminal::pause() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
