// The settings that identify a run: kept with its checkpoints, and compared where one goes on from them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "options/options.h"

namespace trainer {

// The names of two of them, and the value of the second where there is none.
inline constexpr const char *kTokensOfStep = "the tokens of a step", *kValidationData = "the validation data";
inline constexpr const char* kNoData = "none";

// Values as people read them, in UTF-8, by the name of the flag or what else they are called: "--seed", "the tokens of
// a step".
using RunSettings = std::map<std::string, std::string>;

// The settings of resolved options and of the data: the place of tokens may change, the tokens may not. Reads the data:
// all of it, or of more than 2^28 tokens a part (data/content.h).
RunSettings settings_of(const RunOptions& options, const data::Corpus& corpus);

// As a note of a checkpoint (fsdp/checkpoint.h), and back. Throws fsdp::Error for a note that is damaged.
std::string to_note(const RunSettings& settings);
RunSettings settings_from_note(const std::string& note);

struct ChangedSetting {
  std::string name, before, now;
};
using ChangedSettings = std::vector<ChangedSetting>;

struct SettingsDifference {
  ChangedSettings kept;  // of data, model, step and rule: with these it is another run
  ChangedSettings free;  // that a run may change on its way
};

// "--seed: 1 before, 2 now; --lr: 0.1 before, 0.2 now"; empty: nothing differs.
std::string in_one_line(const SettingsDifference& difference);
// A line per setting, in columns, below a heading: name, before, now. Each line begins with "\n    ", for a message
// that ends with a colon.
std::string in_rows(const SettingsDifference& difference);

// "the files of the training data: written ... before, written ... now", where their content was compared in part and
// they may have changed elsewhere. It makes no other run. Empty: there is nothing to tell.
std::string difference_of_files(const RunSettings& saved, const RunSettings& given);

// Compares with the settings of a checkpoint. One that knows less than this program differs in nothing that it does not
// know, and a number of micro-batches that follows from the number of ranks is no difference.
SettingsDifference difference(const RunSettings& saved, const RunSettings& given);

}  // namespace trainer
