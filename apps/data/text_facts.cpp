#include "data/text_facts.h"

#include <fmt/format.h>

namespace data {

namespace {

Seen sum_of_seen(const Seen& one, const Seen& other) {
  return {.count = one.count + other.count, .example = one.count > 0 ? one.example : other.example};
}

// "1 empty file, d.txt", "2 empty files, such as d.txt"
std::string counted_seen(const Seen& seen, const char* one, const char* many) {
  return seen.count == 1 ? fmt::format("1 {}, {}", one, seen.example)
                         : fmt::format("{} {}, such as {}", seen.count, many, seen.example);
}

}  // namespace

TextFacts together(const TextFacts& one, const TextFacts& other) {
  TextFacts all{.hidden = sum_of_seen(one.hidden, other.hidden),
                .binary = sum_of_seen(one.binary, other.binary),
                .empty = sum_of_seen(one.empty, other.empty),
                .crlf = sum_of_seen(one.crlf, other.crlf)};
  if (one.not_utf8 && other.not_utf8) all.not_utf8 = sum_of_seen(*one.not_utf8, *other.not_utf8);
  return all;
}

std::vector<std::string> skipped_lines(const TextFacts& facts) {
  std::vector<std::string> lines;
  const auto add = [&](const Seen& seen, const char* one, const char* many) {
    if (seen.count > 0) lines.push_back("skipped " + counted_seen(seen, one, many));
  };
  add(facts.hidden, "hidden file or folder", "hidden files and folders");
  add(facts.binary, "file that is no text", "files that are no text");
  add(facts.empty, "empty file", "empty files");
  return lines;
}

std::vector<std::string> fact_lines(const TextFacts& facts, bool keeps_bytes) {
  std::vector<std::string> lines = skipped_lines(facts);
  if (facts.crlf.count > 0) {
    lines.push_back("kept CR LF at the ends of lines, in " + counted_seen(facts.crlf, "file", "files"));
  }
  if (facts.not_utf8 && facts.not_utf8->count > 0) {
    lines.push_back(fmt::format("{} bytes that are no UTF-8, in {}", keeps_bytes ? "kept" : "replaced by U+FFFD",
                                counted_seen(*facts.not_utf8, "file", "files")));
  }
  return lines;
}

}  // namespace data
