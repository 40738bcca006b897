#include "planning/hardware_toml.h"

#include <fmt/format.h>

#include <sstream>

#include "planning/hardware_keys.h"

namespace trainer {

namespace {

using fsdp::plan::CpuShare;
using fsdp::plan::Hardware;
using fsdp::plan::RatesBySize;

std::string text_of(double number) { return fmt::format("{:.4g}", number); }
std::string text_of(int64_t number) { return fmt::format("{}", number); }

// Two lists: "[1, 2]" and "[3, 4]".
std::pair<std::string, std::string> lists_of(const RatesBySize& pairs) {
  std::string keys, values;
  for (const auto& [key, value] : pairs) {
    const char* comma = keys.empty() ? "" : ", ";
    keys += comma + text_of(key);
    values += comma + text_of(value);
  }
  return {"[" + keys + "]", "[" + values + "]"};
}

std::string text_of(const RatesBySize& rates) {
  const auto [sizes, all] = lists_of(rates);
  return fmt::format("{{ sizes = {}, rates = {} }}", sizes, all);
}

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') all += '\\';
    if (static_cast<unsigned char>(character) >= ' ') all += character;
  }
  return all + "\"";
}

std::string section_text(const Hardware& hardware, const std::string& section) {
  std::string text;
  for (const HardwareKey& key : hardware_keys()) {
    if (key.section != section || !key.is_of(hardware.kind)) continue;
    const std::string value = std::visit([&](auto field) { return text_of(hardware.*field); }, key.field);
    if (!key.may_be_missing || value != "0") text += fmt::format("{} = {}\n", key.name, value);
  }
  return text.empty() || section.empty() ? text : fmt::format("\n[{}]\n{}", section, text);
}

std::string share_text(const CpuShare& share) {
  std::string text = fmt::format("\n[[share]]\ndtype = \"{}\"\n", share.element == 4 ? "fp32" : "bf16");
  for (const ShareKey& key : share_keys())
    text +=
        fmt::format("{} = {}\n", key.name, std::visit([&](auto field) { return text_of(share.*field); }, key.field));
  return text;
}

std::string collective_text(const CollectiveKey& key, const Hardware& hardware) {
  std::string text;
  for (const auto& [ranks, seconds] : hardware.*key.field) {
    const auto [bytes, times] = lists_of(seconds);
    text += fmt::format("\n[[{}]]\nranks = {}\nbytes = {}\nseconds = {}\n", key.name, ranks, bytes, times);
  }
  return text;
}

}  // namespace

std::string hardware_toml(const Hardware& hardware, const std::string& comment) {
  std::string text;
  std::istringstream lines(comment);
  for (std::string line; std::getline(lines, line);) text += fmt::format("# {}\n", line);
  text += fmt::format("name = {}\nkind = \"{}\"\n", quoted(hardware.name), hardware.has_cpus() ? "cpu" : "gpu");
  for (const char* section : {"", "compute", "network"}) text += section_text(hardware, section);
  for (const CollectiveKey& key : collective_keys()) text += collective_text(key, hardware);
  for (const CpuShare& share : hardware.shares) text += share_text(share);
  return text;
}

}  // namespace trainer
