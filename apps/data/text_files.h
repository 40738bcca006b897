// The text to learn from: a file, or the files under a folder, as one run of bytes that stays on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_file.h"
#include "data/text_facts.h"

namespace data {

// Immutable once made: threads, and processes forked from this one, may share it. Large files are memory-mapped; small
// ones, of which there may be more than a process may map (proc(5): vm.max_map_count), are opened when they are read.
class TextFiles {
 public:
  // `path` is a file or a folder. A file must look like text: no NUL byte in its first 8 KiB, and no other form
  // (text_kind.h). Its bytes are the text. Every such file of a folder is a part of the text, in the order of their
  // paths, each ended by a newline. Hidden files and folders (".name") are left out. Links to files are followed, links
  // to folders are not. Throws fsdp::Error with the path that is missing, unreadable, empty or not text.
  explicit TextFiles(const std::filesystem::path& path);

  int64_t size() const { return files_.back().end; }  // bytes
  // Entries of the folder that could be no part of the text, a sentence each: files that may not be read, links that
  // lead nowhere or to a folder, pipes. In the order of their paths. Files that do not look like text, and what is
  // hidden, are not among them: they are facts.
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  // As far as they are known without reading more than the files' beginnings.
  const TextFacts& facts() const { return facts_; }
  // The bytes from `first` on; 0 <= first and first + bytes.size() <= size(). Throws fsdp::Error when a file has become
  // shorter, or cannot be read any more.
  void read(int64_t first, std::span<char> bytes) const;
  // For messages: "text 'a.txt', byte 17".
  std::string where(int64_t position) const;
  // As above, below the path, and shown with nothing before it: "poems/a.txt, byte 17".
  std::string place(int64_t position) const;

  // The end of the file that holds `position`.
  int64_t end_of_file(int64_t position) const;
  // Equal for equal names below the path, sizes, times of change and content of the files. A text larger
  // than kHashedWhole (content.h) is hashed in samples, with the beginnings and ends of its files.
  uint64_t fingerprint() const;
  // As those of a TokenSource.
  int64_t written() const;
  void release() const;

 private:
  struct File {
    std::filesystem::path path;
    std::string name;  // below the path
    int64_t begin, end;
    int64_t bytes;                       // end - begin, less the newline that it lacks
    std::unique_ptr<MappedFile> mapped;  // null: it is opened when it is read
  };
  void add_folder(const std::filesystem::path& folder);
  void add_if_text(const std::filesystem::path& path, const std::string& name);
  void add(const std::filesystem::path& path, const std::string& name, bool ended_by_newline);
  const File& file_at(int64_t position) const;
  static void read_file(const File& file, int64_t first, std::span<char> bytes);

  std::vector<File> files_;
  std::vector<std::string> passed_over_;
  TextFacts facts_;
};

// Bytes `first` .. `last - 1` of a text.
struct TextPart {
  const TextFiles* text = nullptr;
  int64_t first = 0, last = 0;
  int64_t size() const { return last - first; }
};

TextPart all_of(const TextFiles& text);

// The passed-over entries as lines for people, the first ten of them; empty where nothing was.
std::string passed_over_text(const std::vector<std::string>& passed_over);

struct TextSplit {
  TextPart training = {}, validation = {};  // an empty one: nothing is held back
};

// Holds back the last `fraction` (0 .. 1) of the text, from the beginning of the next line on.
TextSplit split_text(const TextFiles& text, double fraction);

}  // namespace data
