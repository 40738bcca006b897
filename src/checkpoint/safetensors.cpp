#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "files/content_hash.h"

namespace fsdp::checkpoint {

namespace {

size_t digits_of_hashes(const std::vector<AnnouncedTensor>& tensors) {
  int64_t blocks = 0;
  for (const auto& tensor : tensors) blocks += (tensor.bytes() + kHashBlockBytes - 1) / kHashBlockBytes;
  return static_cast<size_t>(blocks) * files::kHashDigits;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(files::DurableFile& file, const std::string& name,
                                     const std::vector<Announced>& tensors, std::map<std::string, std::string> metadata,
                                     Hashes hashes)
    : file_(file), has_hashes_(hashes == Hashes::InHeader) {
  if (has_hashes_) metadata[kHashesName] = std::string(digits_of_hashes(tensors), '0');
  beginning_ = header_text(name, tensors, metadata);
  FSDP_CHECK(static_cast<int64_t>(beginning_.size()) <= kLongestHeader,
             "{}: its header would have {} bytes, expected at most {}. Save on more ranks.", name, beginning_.size(),
             kLongestHeader);
  file_.append(beginning_);
}

void SafetensorsWriter::write(const torch::Tensor& tensor) {
  const torch::Tensor contiguous = tensor.detach().cpu().contiguous();
  const auto* bytes = static_cast<const char*>(contiguous.const_data_ptr());
  const auto size = static_cast<int64_t>(contiguous.nbytes());
  for (int64_t at = 0; at < size; at += kHashBlockBytes) {
    const auto block = static_cast<size_t>(std::min(kHashBlockBytes, size - at));
    if (has_hashes_) hashes_ += files::hash_of(bytes + at, block);
    file_.append(bytes + at, block);
  }
}

WrittenFile SafetensorsWriter::close() {
  if (has_hashes_) {
    const size_t at = beginning_.find(fmt::format("\"{}\":\"", kHashesName)) + std::strlen(kHashesName) + 4;
    FSDP_INVARIANT(beginning_.compare(at + hashes_.size(), 1, "\"") == 0, "the tensors are not those announced");
    beginning_.replace(at, hashes_.size(), hashes_);
    file_.overwrite_beginning(beginning_);
  }
  file_.close();
  return {file_.bytes(), files::hash_of(beginning_.data(), beginning_.size())};
}

WrittenFile write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                              const std::map<std::string, std::string>& metadata, Hashes hashes) {
  NamedTensors sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.element_size() > b.second.element_size(); });
  std::vector<SafetensorsWriter::Announced> announced;
  for (const auto& [name, tensor] : sorted) announced.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  files::DurableFile file(path);
  SafetensorsWriter out(file, path.string(), announced, metadata, hashes);
  for (const auto& named : sorted) out.write(named.second);
  return out.close();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, const WrittenFile* saved)
    : name_(path.string()), file_(files::open_regular(path, name_)) {
  FSDP_CHECK(saved == nullptr || file_.bytes == saved->bytes,
             "{} is damaged: found {} bytes, expected {}. {}Use an older checkpoint.", name_, file_.bytes, saved->bytes,
             file_.bytes < saved->bytes ? "Was it cut off? " : "");
  uint64_t length = 0;
  if (file_.bytes >= kLengthBytes) read_at(0, &length, kLengthBytes);
  FSDP_CHECK(file_.bytes >= kLengthBytes && length <= kLongestHeader &&
                 static_cast<int64_t>(length) <= file_.bytes - kLengthBytes,
             "{}: not a safetensors file: its {} bytes cannot hold the header it announces", name_, file_.bytes);
  std::string text(kLengthBytes + length, '\0');
  read_at(0, text.data(), static_cast<int64_t>(text.size()));
  if (saved != nullptr && !saved->hash.empty()) {
    const std::string hash = files::hash_of(text.data(), text.size());
    FSDP_CHECK(hash == saved->hash,
               "{} is damaged, or of another step: the hash of its header is {}, expected {}. Use an older checkpoint.",
               name_, hash, saved->hash);
  }
  data_begin_ = static_cast<int64_t>(text.size());
  text.erase(0, kLengthBytes);
  header_ = parse_header(name_, text, file_.bytes - data_begin_);
}

void SafetensorsFile::read_at(int64_t offset, void* into, int64_t size) const {
  files::read_exactly(file_, offset, into, static_cast<size_t>(size), name_);
}

void SafetensorsFile::read_bytes(const Entry& entry, int64_t begin, int64_t size, void* into) const {
  FSDP_INVARIANT(begin >= 0 && size >= 0 && size <= entry.bytes() - begin, "bytes from {} on, {} of them, of {} in {}",
                 begin, size, entry.name, name_);
  read_at(data_begin_ + entry.begin + begin, into, size);
}

torch::Tensor SafetensorsFile::read(const Entry& entry) const {
  torch::Tensor tensor = torch::empty(entry.shape, entry.type);
  read_bytes(entry, 0, entry.bytes(), tensor.mutable_data_ptr());
  return tensor;
}

torch::Tensor SafetensorsFile::read(const Entry& entry, int64_t first, int64_t numel) const {
  const auto width = static_cast<int64_t>(c10::elementSize(entry.type));
  FSDP_INVARIANT(first >= 0 && numel >= 0 && numel <= entry.bytes() / width - first,
                 "elements from {} on, {} of them, of {} in {}", first, numel, entry.name, name_);
  torch::Tensor tensor = torch::empty({numel}, entry.type);
  read_bytes(entry, first * width, numel * width, tensor.mutable_data_ptr());
  return tensor;
}

std::string SafetensorsFile::hash_of_all_bytes() const {
  files::ContentHash hash;
  std::vector<char> block(static_cast<size_t>(kHashBlockBytes));
  for (int64_t at = 0; at < file_.bytes; at += kHashBlockBytes) {
    const int64_t size = std::min(kHashBlockBytes, file_.bytes - at);
    read_at(at, block.data(), size);
    hash.add(block.data(), static_cast<size_t>(size));
  }
  return hash.hexadecimal();
}

std::map<std::string, torch::Tensor> read_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& entry : file.entries()) tensors.emplace(entry.name, file.read(entry));
  return tensors;
}

}  // namespace fsdp::checkpoint
