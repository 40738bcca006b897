#include "options/option_paths.h"

#include <fmt/format.h>
#include <limits.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "data/sources.h"
#include "models/model_sizes.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

enum class PathForm { None, One, Sources, Tokenizer, Model, Resume };

PathForm path_form(std::string_view flag) {
  struct Entry {
    std::string_view flag;
    PathForm form;
  };
  static constexpr std::array<Entry, 15> kForms = {{{"--text", PathForm::Sources},
                                                    {"--data", PathForm::Sources},
                                                    {"--validation", PathForm::One},
                                                    {"--tokenizer", PathForm::Tokenizer},
                                                    {"--cache", PathForm::One},
                                                    {"--model", PathForm::Model},
                                                    {"--init-from", PathForm::One},
                                                    {"--run", PathForm::One},
                                                    {"--offload-directory", PathForm::One},
                                                    {"--checkpoint", PathForm::One},
                                                    {"--resume", PathForm::Resume},
                                                    {"--config", PathForm::One},
                                                    {"--output", PathForm::One},
                                                    {"--profile", PathForm::One},
                                                    {"RUN", PathForm::One}}};
  const auto found = std::ranges::find(kForms, flag, &Entry::flag);
  return found == kForms.end() ? PathForm::None : found->form;
}

// A word that stands for something else.
bool is_word(PathForm form, const std::string& value) {
  switch (form) {
    case PathForm::Tokenizer:
      return value == "bytes" || value.starts_with("train:");
    case PathForm::Model:
      return models::config_of_size(value).has_value();
    case PathForm::Resume:
      return value == "auto" || value == "never";
    default:
      return form == PathForm::None;
  }
}

// Without links as far as that can be known.
fs::path working_folder() {
  std::error_code error;
  fs::path folder = fs::current_path(error);
  return error ? fs::path(".") : folder;
}

// Whole and without dots, and with a slash at its end only where `path` has one.
std::string joined_path(const fs::path& folder, const std::string& path) {
  const std::string whole = (folder / path).lexically_normal().string();
  const bool is_bare = whole.size() > 1 && whole.ends_with('/') && !path.ends_with('/');
  return is_bare ? whole.substr(0, whole.size() - 1) : whole;
}

std::string last_name_of(const std::string& path) {
  const fs::path whole = fs::path(absolute_path(path));
  return whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
}

}  // namespace

std::string with_paths(const Row& row, const std::string& value,
                       const std::function<std::string(const std::string& path)>& replace) {
  const PathForm form = path_form(row.flag);
  if (value.empty() || is_word(form, value)) return value;
  return form == PathForm::Sources ? data::with_source_paths(value, replace) : replace(value);
}

std::string problem_of_length(const std::string& path) {
  if (path.size() < PATH_MAX) return "";
  return fmt::format(" is a path of {} bytes, and the system takes {}. Name a shorter one.", path.size(), PATH_MAX - 1);
}

std::string problem_of_lengths(const Row& row, const std::string& value) {
  std::string problem;
  with_paths(row, value, [&](const std::string& path) {
    if (problem.empty()) problem = problem_of_length(path);
    return path;
  });
  return problem;
}

bool names_relative_path(const Row& row, const std::string& value) {
  bool is_relative = false;
  with_paths(row, value, [&](const std::string& path) {
    is_relative = is_relative || fs::path(path).is_relative();
    return path;
  });
  return is_relative;
}

bool names_same_files(const Row& row, const std::string& one, const std::string& other) {
  return with_paths(row, one, last_name_of) == with_paths(row, other, last_name_of);
}

fs::path folder_of_file(const fs::path& file) {
  std::error_code error;
  const fs::path folder = fs::absolute(file, error).parent_path();
  const fs::path whole = fs::weakly_canonical(folder, error);
  return error ? folder : whole;
}

std::string path_from(const fs::path& folder, const std::string& path) {
  if (fs::path(path).is_absolute()) return path;
  const std::string whole = joined_path(folder, path);
  const fs::path here = working_folder();
  const fs::path near = fs::path(whole).lexically_relative(here);
  const bool lies_here = here.has_relative_path() && !near.empty() && *near.begin() != "..";  // all lies in the root
  return lies_here ? near.string() : whole;
}

std::string path_seen_from(const fs::path& folder, const std::string& path) {
  return fs::path(absolute_path(path)).lexically_relative(folder).string();
}

std::string absolute_path(const std::string& path) { return joined_path(working_folder(), path); }

}  // namespace trainer
