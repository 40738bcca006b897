#include "checkpoint/loaded_values.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "checkpoint/generators.h"
#include "checkpoint/problems.h"
#include "checkpoint/state_kinds.h"
#include "engine/module_buffers.h"
#include "interpose/piece_storage.h"
#include "optim/block8.h"

namespace fsdp::checkpoint {

namespace {

using optim::kBlock8Numel;

template <typename Code>
torch::Tensor unpacked(const torch::Tensor& codes, const torch::Tensor& scales, int64_t first) {
  torch::Tensor values = torch::empty({codes.numel()}, torch::kFloat);
  const torch::Tensor scales_in_fp32 = scales.to(torch::kFloat);
  const auto* code = codes.const_data_ptr<Code>();
  const auto* scale = scales_in_fp32.const_data_ptr<float>();
  auto* value = values.mutable_data_ptr<float>();
  for (int64_t begin = 0; begin < codes.numel();) {
    const int64_t in_block = (first + begin) % kBlock8Numel;
    const int64_t end = std::min(begin + kBlock8Numel - in_block, codes.numel());
    optim::block8_unpack(std::span(code + begin, code + end), scale[(first + begin) / kBlock8Numel], value + begin);
    begin = end;
  }
  return values;
}

template <typename Code>
void pack(const torch::Tensor& values, const torch::Tensor& codes, const torch::Tensor& scales) {
  const auto* value = values.const_data_ptr<float>();
  auto* code = codes.mutable_data_ptr<Code>();
  auto* scale = scales.mutable_data_ptr<float>();
  for (int64_t begin = 0; begin < codes.numel(); begin += kBlock8Numel) {
    const int64_t end = std::min(begin + kBlock8Numel, codes.numel());
    scale[begin / kBlock8Numel] = optim::block8_pack(std::span(value + begin, value + end), code + begin);
  }
}

// The values, padded with 0 to `numel` elements.
torch::Tensor padded(const torch::Tensor& values, int64_t numel) {
  torch::Tensor all = torch::zeros({numel}, torch::kFloat);
  all.slice(0, 0, values.numel()).copy_(values);
  return all;
}

// True if bytes that a file has in this dtype are the target's as they are.
bool can_be_read_into(const torch::Tensor& target, const std::string& dtype) {
  return target.is_cpu() && target.is_contiguous() && dtype == dtype_name(target.scalar_type());
}

}  // namespace

LoadedValues::LoadedValues(const std::filesystem::path& directory, const Manifest& saved)
    : directory_(directory), saved_(saved) {
  for (const auto& parameter : saved.parameters) parameters_.emplace(parameter.name, &parameter);
}

void LoadedValues::add(const Contents::Piece& of, const std::string& parameter, const layout::Placement& placed,
                       bool is_there, bool is_blank) {
  const Manifest::Parameter* saved = is_there ? parameters_.at(parameter) : nullptr;
  const bool has_grown = saved != nullptr && saved->shape != placed.shape;
  const layout::Placement there = has_grown ? layout::first_rows(placed, saved->shape[0]) : placed;
  const int64_t numel = saved != nullptr ? there.numel() : 0;
  if (numel < placed.numel() && of.kind != kModel) fresh_.push_back(of.tensor);
  if (numel > 0) add_saved(of, *saved, there, is_blank);
}

void LoadedValues::add_saved(const Contents::Piece& of, const Manifest::Parameter& saved,
                             const layout::Placement& elements, bool is_blank) {
  const bool is_packed = of.scales.defined(), was_packed = is_block8(saved, of.kind);
  if (is_packed && !was_packed) {
    packings_.push_back({of.tensor, of.scales, to_be_read(saved, of.kind, elements)});
  } else if (was_packed && !is_packed) {
    const int64_t first = elements.range.begin % kBlock8Numel;
    const torch::Tensor codes = to_be_read(saved, of.kind, elements);
    layout::Placement blocks = elements;
    blocks.range.begin -= first;
    const torch::Tensor scales = to_be_read(saved, of.kind + kScales, blocks, kBlock8Numel);
    unpackings_.push_back({of.tensor.slice(0, 0, elements.numel()), codes, scales, first});
  } else if (of.numel_each == 1 || saved.tensors.contains(of.kind)) {  // what was not packed has no scales
    const auto dtype = saved.tensors.find(of.kind);
    const torch::Tensor target = interpose::plain(of.tensor);
    if (dtype != saved.tensors.end() && can_be_read_into(target, dtype->second)) {
      const auto ranges = saved_ranges(saved.parts, elements, of.numel_each);
      for (PieceRead& read : reads_of(saved, of.kind, ranges, target.mutable_data_ptr())) {
        if (!is_blank) {
          reads_in_place_.push_back(read);
          read.bytes.into = nullptr;
        }
        reads_.push_back(read);
      }
      if (is_blank) blank_.push_back(target);
      return;
    }
    const torch::Tensor values = to_be_read(saved, of.kind, elements, of.numel_each);
    copies_.push_back({of.tensor.slice(0, 0, values.numel()), values});
  }
}

torch::Tensor LoadedValues::to_be_read(const Manifest::Parameter& saved, const std::string& kind,
                                       const layout::Placement& elements, int64_t numel_each) {
  const std::vector<SavedRange> ranges = saved_ranges(saved.parts, elements, numel_each);
  const torch::Tensor values =
      torch::empty({blocks_of(elements.numel(), numel_each)}, entry_of(saved, kind, ranges.front()).type);
  const auto reads = reads_of(saved, kind, ranges, values.mutable_data_ptr());
  reads_.insert(reads_.end(), reads.begin(), reads.end());
  return values;
}

std::vector<PieceRead> LoadedValues::reads_of(const Manifest::Parameter& saved, const std::string& kind,
                                              const std::vector<SavedRange>& ranges, void* into) {
  std::vector<PieceRead> reads;
  for (const SavedRange& range : ranges) {
    const ShardFile::Entry& entry = entry_of(saved, kind, range);
    const auto width = static_cast<int64_t>(c10::elementSize(entry.type));
    reads.push_back({&open(range.file),
                     &entry,
                     {.begin = range.first * width,
                      .bytes = range.numel * width,
                      .into = static_cast<char*>(into) + range.at * width,
                      .count = range.count,
                      .step = range.step * width,
                      .step_into = range.step_at * width}});
  }
  return reads;
}

const ShardFile::Entry& LoadedValues::entry_of(const Manifest::Parameter& saved, const std::string& kind,
                                               const SavedRange& range) {
  const std::string name = kind + "." + saved.name;
  const auto dtype = saved.tensors.find(kind);
  FSDP_CHECK(dtype != saved.tensors.end(), "{}: the manifest is damaged: it has no {}", directory_.string(), name);
  return open(range.file).entry(name, dtype->second, {range.whole});
}

void LoadedValues::add_buffers(const NamedTensors& buffers) {
  for (const auto& [name, buffer] : buffers) {
    const auto saved = std::ranges::find(saved_.buffers, name, &Manifest::Buffer::name);
    if (saved == saved_.buffers.end()) continue;
    const ShardFile& file = open(saved->file);
    const auto& entry = file.entry(kBuffer + name, saved->dtype, saved->shape);
    const torch::Tensor values = torch::empty(entry.shape, entry.type);
    add_read(file, entry, 0, values);
    copies_.push_back({buffer, values});
  }
}

torch::Tensor LoadedValues::add_generator(const Manifest::Generator& generator, int rank) {
  const ShardFile& file = open(0);
  const auto& entry =
      file.entry(kGenerator + generator.name, dtype_name(torch::kByte), {saved_.world_size, generator.bytes});
  const torch::Tensor state = torch::empty({generator.bytes}, torch::kByte);
  add_read(file, entry, rank * generator.bytes, state);
  return state;
}

void LoadedValues::add_read(const ShardFile& file, const ShardFile::Entry& entry, int64_t begin,
                            const torch::Tensor& into) {
  const auto bytes = static_cast<int64_t>(into.nbytes());
  if (bytes == 0) return;
  reads_.push_back(
      {&file, &entry, {.begin = begin, .bytes = bytes, .into = static_cast<char*>(into.mutable_data_ptr())}});
}

void LoadedValues::read() {
  has_begun_ = true;
  throw_if_any(read_and_check(reads_), directory_.string(), "Use an older checkpoint.");
}

void LoadedValues::clear_blank() const {
  if (!has_begun_) return;
  for (const torch::Tensor& target : blank_) torch::Tensor(target).zero_();
}

void LoadedValues::write() const {
  for (const torch::Tensor& state : fresh_) torch::Tensor(state).zero_();
  for (const Copy& copy : copies_) engine::copy_values(copy.target, copy.values);
  for (const Unpacking& one : unpackings_) {
    const bool is_signed = one.codes.scalar_type() == torch::kChar;
    const auto unpack = is_signed ? unpacked<int8_t> : unpacked<uint8_t>;
    torch::Tensor(one.target).copy_(unpack(one.codes, one.scales, one.first));
  }
  for (const Packing& one : packings_) {
    const bool is_signed = one.codes.scalar_type() == torch::kChar;
    const auto pack_codes = is_signed ? pack<int8_t> : pack<uint8_t>;
    pack_codes(padded(one.values, one.codes.numel()), one.codes, one.scales);
  }
  throw_if_any(read_and_check(reads_in_place_), directory_.string() + " changed while it was loaded",
               "Load it again, or an older checkpoint.");
}

const ShardFile& LoadedValues::open(int file) {
  std::unique_ptr<ShardFile>& opened = files_[file];
  if (!opened) {
    opened = std::make_unique<ShardFile>(directory_ / file_name(saved_, file), saved_.files[static_cast<size_t>(file)]);
  }
  return *opened;
}

}  // namespace fsdp::checkpoint
