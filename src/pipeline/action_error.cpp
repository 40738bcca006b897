#include "pipeline/action_error.h"

namespace fsdp::pipeline {

namespace {

// "[fsdp rank 1/4] text" without the beginning, which the new message has.
std::string without_prefix(const std::string& text) {
  const size_t end = text.find("] ");
  return text.starts_with("[fsdp") && end != std::string::npos ? text.substr(end + 2) : text;
}

}  // namespace

void throw_with_place(const std::string& place) {
  std::string text;
  try {
    throw;
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    text = without_prefix(error.what());
  }
  constexpr std::string_view kStart = "Pipeline";
  // An error of ours goes on from the place around it.
  if (text.starts_with(kStart)) text.erase(0, text.find(' ') + 1);
  throw_error(fmt::format("{}{}, {}: {}", message_prefix(), kStart, place, text));
}

}  // namespace fsdp::pipeline
