// Scripts of completion in the shells that they are for.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "apps/command.h"
#include "support/temporary_folder.h"

// A folder of files in which bash completes a program's command line.
class BashCompleter {
 public:
  // `function` is that of the script which fills COMPREPLY.
  BashCompleter(const std::string& program, const std::string& function, const std::string& script,
                const std::vector<std::string>& files) {
    folder_.write("completion.bash", script);
    folder_.write("complete.bash", "source completion.bash\nCOMP_WORDS=(" + program +
                                       " \"$@\")\nCOMP_CWORD=$#\ncd files\n" + function +
                                       "\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
    for (const std::string& file : files) folder_.write("files/" + file, "");
  }

  // `words` as a shell reads them; the last is the one that is being typed.
  std::vector<std::string> completed(const std::string& words) const {
    const Ending ending = run_command("cd " + folder_.path().string() + " && bash -u complete.bash " + words);
    EXPECT_EQ(ending.code, 0) << ending.output;
    std::istringstream lines(ending.output);
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) found.push_back(line);
    }
    return found;
  }

 private:
  TemporaryFolder folder_;
};

// Where the shell is there, it reads the script.
inline void expect_readable(const std::string& shell, const std::string& script) {
  const TemporaryFolder folder;
  const std::string path = folder.write("script", script);
  if (run_command(shell + " --version").code != 0) return;
  const Ending ending = run_command(shell + " -n " + path);
  EXPECT_EQ(ending.code, 0) << ending.output;
}
