#include "device/places.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <vector>

#include "device/symbols.h"

namespace fsdp::testing::device {

namespace {

constexpr int kDeepest = 64;
constexpr size_t kLinesShown = 8;

using Frames = std::vector<void*>;

std::map<Frames, Place>& numbers() {
  static auto* all = new std::map<Frames, Place>;
  return *all;
}
std::vector<const Frames*>& frames_by_number() {
  static auto* all = new std::vector<const Frames*>{nullptr};
  return *all;
}

std::string without_arguments(std::string name) {
  const size_t end =
      name.find('(', name.starts_with('(') || name.find("(anonymous") != std::string::npos ? name.rfind("::") + 1 : 0);
  return end == std::string::npos || end == 0 ? name : name.substr(0, end);
}

std::string demangled(const std::string& name) {
  int status = -1;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = text != nullptr ? text : name;
  std::free(text);
  return result;
}

bool starts_with_one_of(const std::string& name, std::initializer_list<const char*> starts) {
  return std::ranges::any_of(starts, [&](const char* start) { return name.starts_with(start); });
}

std::string file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Empty for a function of LibTorch, of the test's frame or of the device.
std::string line_of(void* frame) {
  Dl_info info{};
  if (dladdr(frame, &info) == 0) return {};
  const std::string file = file_name(info.dli_fname);
  if (starts_with_one_of(file, {"libtorch", "libc10", "libc.", "libstdc++", "libfsdp_test_device", "ld-linux"}))
    return {};
  const uintptr_t offset = reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(info.dli_fbase);
  const std::string name = demangled(function_at(info.dli_fname, offset));
  if (starts_with_one_of(name, {"at::", "c10::", "torch::", "testing::", "void testing::", "std::", "void std::",
                                "decltype", "RUN_ALL_TESTS", "main", "_start"}))
    return {};
  char number[32];
  std::snprintf(number, sizeof number, "+0x%zx]", static_cast<size_t>(offset));
  return "      " + (name.empty() ? "" : without_arguments(name) + "  ") + "[" + file + number + "\n";
}

}  // namespace

Place this_place() {
  std::array<void*, kDeepest> frames;
  const int depth = backtrace(frames.data(), kDeepest);
  const auto [found, is_new] = numbers().try_emplace(Frames(frames.begin(), frames.begin() + depth),
                                                     static_cast<Place>(frames_by_number().size()));
  if (is_new) frames_by_number().push_back(&found->first);
  return found->second;
}

std::string text_of(Place place) {
  if (place == 0) return "";
  const Frames& frames = *frames_by_number()[place];
  return text_of_frames(frames.data(), frames.size());
}

std::string text_of_frames(void* const* frames, size_t count) {
  std::string text;
  for (size_t i = 0, lines = 0; i < count && lines < kLinesShown; ++i) {
    const std::string line = line_of(frames[i]);
    lines += line.empty() ? 0 : 1;
    text += line;
  }
  return text.empty() ? "      (no function of the program)\n" : text;
}

}  // namespace fsdp::testing::device
