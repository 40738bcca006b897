#include "checkpoint/version2.h"

#include <map>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/safetensors.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

using Entry = SafetensorsFile::Entry;

// "optimizer.exp_avg" and "blocks.0.weight": a state's name has no dot.
std::pair<std::string, std::string> kind_and_name(const std::string& name) {
  size_t dot = name.find('.');
  if (dot != std::string::npos && name.substr(0, dot) == kOptimizer) dot = name.find('.', dot + 1);
  return dot == std::string::npos ? std::pair(name, std::string())
                                  : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

class Completion {
 public:
  explicit Completion(Manifest& manifest) : manifest_(manifest) {
    for (auto& parameter : manifest.parameters) parameters_.emplace(parameter.name, &parameter);
  }

  void add(const SafetensorsFile& file, int shard) {
    for (const Entry& entry : file.entries()) {
      if (kind_and_name(entry.name).first == kModel) add_piece(file, entry, shard);
    }
    for (const Entry& entry : file.entries()) {
      const auto [kind, name] = kind_and_name(entry.name);
      if (entry.name.starts_with(kBuffer)) {
        if (shard == 0) manifest_.buffers.push_back({name, entry.shape, dtype_name(entry.type)});
      } else if (entry.shape.empty()) {
        add_scalar(file, entry, shard);
      } else {
        parameter(file, entry).tensors[kind] = dtype_name(entry.type);
      }
    }
  }

 private:
  Manifest::Parameter& parameter(const SafetensorsFile& file, const Entry& entry) {
    const auto found = parameters_.find(kind_and_name(entry.name).second);
    FSDP_CHECK(found != parameters_.end() && entry.shape.size() <= 1,
               "{} is damaged: its {} is of no parameter of its manifest", file.name(), files::printable(entry.name));
    return *found->second;
  }

  void add_piece(const SafetensorsFile& file, const Entry& entry, int shard) {
    Manifest::Parameter& of = parameter(file, entry);
    FSDP_CHECK(entry.shape.size() == 1, "{} is damaged: {} has shape {}, expected one dimension", file.name(),
               files::printable(entry.name), entry.shape);
    const int64_t begin = of.parts.empty() ? 0 : of.parts.back().placement.range.end;
    if (entry.shape[0] == 0) return;
    of.parts.push_back(
        {.file = shard, .placement = layout::part_of_whole(of.shape, {begin, checked_add(begin, entry.shape[0])})});
  }

  // A file whose piece is empty may have another number.
  void add_scalar(const SafetensorsFile& file, const Entry& entry, int shard) {
    Manifest::Parameter& of = parameter(file, entry);
    const std::string kind = kind_and_name(entry.name).first;
    const bool has_first_piece = of.parts.size() == 1 && of.parts[0].file == shard;
    if (!has_first_piece && of.scalars.contains(kind)) return;
    const auto number = file.read(entry).item<double>();
    FSDP_CHECK(is_scalar_of(kind, number), "{} is damaged: found {} for {}, expected a whole number from 0 to {}",
               file.name(), number, files::printable(entry.name), kHighestStep);
    of.scalars[kind] = number;
  }

  Manifest& manifest_;
  std::map<std::string, Manifest::Parameter*> parameters_;
};

}  // namespace

void complete_version2(const std::filesystem::path& directory, Manifest& manifest, int rank, int ranks) {
  Completion completion(manifest);
  for (int shard = 0; shard < manifest.shards; ++shard) {
    WrittenFile& saved = manifest.files[static_cast<size_t>(shard)];
    const std::string expected = std::exchange(saved.hash, "");
    const SafetensorsFile file(directory / shard_file_name(shard, manifest.shards), &saved);
    if (shard % ranks == rank) {
      const std::string hash = file.hash_of_all_bytes();
      FSDP_CHECK(hash == expected,
                 "{} is damaged, or of another step: its hash is {}, expected {}. Use an older checkpoint.",
                 file.name(), hash, expected);
    }
    completion.add(file, shard);
  }
  for (const auto& parameter : manifest.parameters) {
    const int64_t numel = parameter.parts.empty() ? 0 : parameter.parts.back().placement.range.end;
    FSDP_CHECK(numel_of(parameter.shape) == numel, "{} is damaged: the pieces of {} do not make up its shape {}",
               directory.string(), files::printable(parameter.name), parameter.shape);
  }
}

}  // namespace fsdp::checkpoint
