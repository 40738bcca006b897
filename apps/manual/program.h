// A program as its manual page and the completions of its command line describe it: all that this room's generators
// know of one.
#pragma once

#include <string>
#include <vector>

namespace trainer {

enum class Paths { None, Files, Folders };

// For a shell to offer where a value is typed.
struct ValueHints {
  std::vector<std::string> words = {};
  Paths paths = Paths::None;  // where Files, folders too
};

// A word that is no option's.
struct ProgramWord {
  std::string name = {};  // "RUN"
  ValueHints hints = {};
  bool takes_several = false;
};

// How a command, the first word of a command line, is typed.
enum class CommandWord { Typed, MayBeLeftOut, NeverTyped };

struct ProgramCommand {
  std::string word = {};                 // where it is never typed, a name within the scripts
  std::vector<std::string> usages = {};  // each follows the word in a line of its own; may be empty
  std::string summary = {};              // a sentence or two
  std::string examples = {};             // lines
  std::vector<ProgramWord> words = {};   // in their order
  CommandWord typing = CommandWord::Typed;
};

struct ProgramOption {
  std::string flag = {};                   // "--lr"; without dashes: a word, for the page to explain
  std::string placeholder = {};            // of its value, "STEPS"; empty where it takes none
  std::string text = {};                   // sentences
  ValueHints hints = {};                   // of its value
  std::string heading = {};                // that it stands under on the page; empty: none
  std::vector<std::string> commands = {};  // the words of commands with this option; at least one
  bool takes_several = false;              // it may be given more than once

  bool is_word() const { return !flag.starts_with('-'); }
  bool is_for(const ProgramCommand& command) const;
};

struct PageItem {
  std::string name = {};
  std::string meaning = {};
};

// "EXIT STATUS", for one.
struct PageSection {
  std::string title = {};
  std::vector<PageItem> items = {};
};

struct Program {
  std::string name = {};
  std::string summary = {};                   // stands beside the name
  std::string description = {};               // a paragraph
  std::vector<ProgramCommand> commands = {};  // the first is that of a command line which names none
  std::string help_word = {};                 // a sentence on the word help; empty: there is no such word
  std::string brief_help = {};                // a sentence on -h
  std::string full_help = {};                 // a sentence on --help
  std::string options_note = {};              // stands before the options
  std::vector<ProgramOption> options = {};    // those under one heading together
  std::vector<PageSection> sections = {};     // at the end of the page: files, formats, exit codes

  const ProgramCommand& default_command() const { return commands.front(); }
  std::vector<std::string> typed_words() const;  // of the commands
  Paths paths_at_first() const;                  // where the first word may be a path, and no command
};

}  // namespace trainer
