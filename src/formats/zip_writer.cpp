#include "formats/zip_writer.h"

#include "base/error.h"
#include "formats/crc32.h"
#include "formats/zip_format.h"

namespace fsdp::formats {

namespace {

using namespace zip;

constexpr int64_t kAlignment = 64;
constexpr uint16_t kVersion = 45;         // of the specification: the first with zip64
constexpr uint16_t kUtf8Flag = 1 << 11;   // names are in UTF-8
constexpr int64_t kMostNameBytes = 1024;  // PyTorch's are some 20

uint32_t narrow(int64_t number) { return number >= kIn64 ? kIn64 : static_cast<uint32_t>(number); }

// The field for numbers that 32 bits do not hold.
std::string zip64_extra(const std::vector<int64_t>& numbers) {
  std::string fields;
  for (const int64_t number : numbers) {
    if (number >= kIn64) append<uint64_t>(fields, static_cast<uint64_t>(number));
  }
  if (fields.empty()) return fields;
  std::string extra;
  append<uint16_t>(extra, kZip64Extra);
  append<uint16_t>(extra, static_cast<uint16_t>(fields.size()));
  return extra + fields;
}

// Makes bytes that follow at `offset` begin at a multiple of kAlignment.
std::string padding_extra(int64_t offset) {
  constexpr int64_t kHeader = 4;
  const int64_t padding = (kAlignment - (offset + kHeader) % kAlignment) % kAlignment;
  std::string extra;
  append<uint16_t>(extra, kPaddingExtra);
  append<uint16_t>(extra, static_cast<uint16_t>(padding));
  return extra.append(static_cast<size_t>(padding), '\0');
}

// The fields that headers and the directory's entries share.
void append_fields(std::string& header, uint32_t crc, int64_t bytes, const std::string& name,
                   const std::string& extra) {
  append<uint16_t>(header, kVersion);
  append<uint16_t>(header, kUtf8Flag);
  append<uint16_t>(header, kStored);
  append<uint32_t>(header, 0x00210000);  // the first day that the format has, 1 January 1980
  append<uint32_t>(header, crc);
  append<uint32_t>(header, narrow(bytes));
  append<uint32_t>(header, narrow(bytes));
  append<uint16_t>(header, static_cast<uint16_t>(name.size()));
  append<uint16_t>(header, static_cast<uint16_t>(extra.size()));
}

}  // namespace

void ZipWriter::add(const std::string& name, const void* bytes, size_t size) {
  FSDP_INVARIANT(name.size() <= kMostNameBytes, "an entry's name has {} bytes", name.size());
  const Entry entry{name, offset(), static_cast<int64_t>(size), crc32(0, bytes, size)};
  std::string extra = zip64_extra({entry.bytes, entry.bytes});
  extra += padding_extra(entry.header + kLocalHeaderBytes + static_cast<int64_t>(name.size() + extra.size()));
  std::string header;
  append<uint32_t>(header, kLocalHeader);
  append_fields(header, entry.crc, entry.bytes, name, extra);
  file_.append(header + name + extra);
  file_.append(bytes, size);
  entries_.push_back(entry);
}

void ZipWriter::finish() {
  const int64_t directory = offset();
  for (const Entry& entry : entries_) {
    const std::string extra = zip64_extra({entry.bytes, entry.bytes, entry.header});
    std::string header;
    append<uint32_t>(header, kDirectoryEntry);
    append<uint16_t>(header, kVersion);
    append_fields(header, entry.crc, entry.bytes, entry.name, extra);
    append<uint16_t>(header, 0);  // bytes of a comment
    append<uint16_t>(header, 0);  // the first disk
    append<uint16_t>(header, 0);
    append<uint32_t>(header, 0);
    append<uint32_t>(header, narrow(entry.header));
    file_.append(header + entry.name + extra);
  }
  const int64_t end = offset(), bytes = end - directory;
  const auto entries = static_cast<int64_t>(entries_.size());
  std::string record;
  if (directory >= kIn64 || bytes >= kIn64 || entries >= 0xFFFF) {
    append<uint32_t>(record, kEnd64);
    append<uint64_t>(record, kEnd64Bytes - 12);  // after this field
    append<uint16_t>(record, kVersion);
    append<uint16_t>(record, kVersion);
    append<uint64_t>(record, 0);  // this disk and that of the directory
    append<uint64_t>(record, static_cast<uint64_t>(entries));
    append<uint64_t>(record, static_cast<uint64_t>(entries));
    append<uint64_t>(record, static_cast<uint64_t>(bytes));
    append<uint64_t>(record, static_cast<uint64_t>(directory));
    append<uint32_t>(record, kEnd64Locator);
    append<uint32_t>(record, 0);
    append<uint64_t>(record, static_cast<uint64_t>(end));
    append<uint32_t>(record, 1);
  }
  append<uint32_t>(record, kEnd);
  append<uint32_t>(record, 0);
  const auto shown = static_cast<uint16_t>(entries >= 0xFFFF ? 0xFFFF : entries);
  append<uint16_t>(record, shown);
  append<uint16_t>(record, shown);
  append<uint32_t>(record, narrow(bytes));
  append<uint32_t>(record, narrow(directory));
  append<uint16_t>(record, 0);
  file_.append(record);
}

}  // namespace fsdp::formats
