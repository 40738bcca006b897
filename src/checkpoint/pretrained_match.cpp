#include "checkpoint/pretrained_match.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/names.h"
#include "checkpoint/contents.h"

namespace fsdp::checkpoint {

namespace {

// A module that was converted as a whole has buffers of whole numbers in its own dtype (num_batches_tracked).
bool is_convertible(torch::ScalarType from, const PretrainedTensor& wanted) {
  if (from == wanted.type) return true;
  return torch::isFloatingType(wanted.type) &&
         (torch::isFloatingType(from) || (wanted.is_buffer && torch::isIntegralType(from, /*includeBool=*/true)));
}

// Rows of the same shape in the file and in the model, which has more or fewer of them.
bool has_same_rows(const SafetensorsFile::Entry& entry, const PretrainedTensor& wanted) {
  const std::vector<int64_t>& shape = wanted.shape;
  const bool may = !wanted.is_buffer && !wanted.transposed && !shape.empty() && entry.shape.size() == shape.size();
  return may && std::equal(shape.begin() + 1, shape.end(), entry.shape.begin() + 1);
}

// The rows that the file has are the parameter's first ones.
bool has_grown(const SafetensorsFile::Entry& entry, const PretrainedTensor& wanted) {
  return has_same_rows(entry, wanted) && entry.shape[0] < wanted.shape[0];
}

bool is_cut(const SafetensorsFile::Entry& entry, const PretrainedTensor& wanted) {
  return wanted.may_be_cut && has_same_rows(entry, wanted) && entry.shape[0] > wanted.shape[0];
}

// Finds each wanted tensor among those of the files, and how they differ.
class Matcher {
 public:
  Matcher(const PretrainedFiles& files, const PretrainedOptions& options) : files_(files), options_(options) {}

  PretrainedMatch match(const std::vector<PretrainedTensor>& wanted) && {
    for (const PretrainedTensor& tensor : wanted) match_.sources.push_back(find(tensor));
    for (const auto& [name, tensor] : files_.tensors()) {
      if (used_.contains(name) || matches_any(options_.ignored, name)) continue;
      differs(match_.differences.extra, name, fmt::format("{} is in the files and not in the model", name));
    }
    return std::move(match_);
  }

 private:
  PretrainedSource find(const PretrainedTensor& wanted) {
    if (wanted.absent) return {};
    auto named = files_.tensors().find(wanted.name_in_file);
    if (named == files_.tensors().end() && wanted.name_in_file.starts_with(options_.optional_prefix)) {
      named = files_.tensors().find(wanted.name_in_file.substr(options_.optional_prefix.size()));
    }
    if (named == files_.tensors().end()) {
      const std::string name = (wanted.is_buffer ? kBuffer : "") + wanted.name;
      differs(match_.differences.missing, name, fmt::format("{} is missing", wanted.name_in_file));
      return {};
    }
    used_.insert(named->first);
    const auto& entry = *named->second.entry;
    if (!is_convertible(entry.type, wanted)) {
      match_.problems.push_back(fmt::format("{} is {}, which does not become the model's {}", entry.name,
                                            toString(entry.type), toString(wanted.type)));
    }
    if (is_cut(entry, wanted)) {
      match_.differences.cut.push_back(wanted.name);
      return {.file = named->second.file, .entry = &entry, .is_whole = true, .is_cut = true};
    }
    const bool is_whole = entry.shape == wanted.shape_in_file();
    if (!is_whole) compare_shapes(entry, wanted);
    return {named->second.file, &entry, is_whole};
  }

  void compare_shapes(const SafetensorsFile::Entry& entry, const PretrainedTensor& wanted) {
    const std::string text = fmt::format("{} has shape {}, expected {}{}", entry.name, entry.shape,
                                         wanted.shape_in_file(), wanted.transposed ? ", the model's transposed" : "");
    if (!has_grown(entry, wanted)) return match_.problems.push_back(text);
    differs(match_.differences.grown, wanted.name, text);
  }

  void differs(std::vector<std::string>& kind, const std::string& name, const std::string& text) {
    kind.push_back(name);
    if (options_.strict) match_.problems.push_back(text);
  }

  const PretrainedFiles& files_;
  const PretrainedOptions& options_;
  std::set<std::string> used_;
  PretrainedMatch match_;
};

}  // namespace

PretrainedMatch match(const PretrainedFiles& files, const std::vector<PretrainedTensor>& wanted,
                      const PretrainedOptions& options) {
  return Matcher(files, options).match(wanted);
}

}  // namespace fsdp::checkpoint
