#include "device/symbols.h"

#include <elf.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

namespace fsdp::testing::device {

namespace {

struct FunctionSymbol {
  uintptr_t begin = 0, end = 0;
  std::string name;
};
using FunctionSymbols = std::vector<FunctionSymbol>;  // by where they begin

template <typename One>
std::vector<One> read_table(std::ifstream& file, uint64_t offset, uint64_t bytes) {
  std::vector<One> all(bytes / sizeof(One));
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(all.size() * sizeof(One)));
  return all;
}

FunctionSymbols read_functions(const std::string& path) {
  FunctionSymbols functions;
  std::ifstream file(path, std::ios::binary);
  const auto header = read_table<Elf64_Ehdr>(file, 0, sizeof(Elf64_Ehdr));
  if (!file) return functions;
  const auto sections = read_table<Elf64_Shdr>(file, header[0].e_shoff, header[0].e_shnum * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& texts = sections[section.sh_link];
    const auto names = read_table<char>(file, texts.sh_offset, texts.sh_size);
    for (const auto& symbol : read_table<Elf64_Sym>(file, section.sh_offset, section.sh_size))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_name < names.size())
        functions.push_back({symbol.st_value, symbol.st_value + symbol.st_size, &names[symbol.st_name]});
  }
  std::ranges::sort(functions, {}, &FunctionSymbol::begin);
  return functions;
}

}  // namespace

std::string function_at(const std::string& file, uintptr_t offset) {
  static auto* read = new std::map<std::string, FunctionSymbols>;
  const auto [found, is_new] = read->try_emplace(file);
  if (is_new) found->second = read_functions(file);
  const FunctionSymbols& all = found->second;
  const auto after = std::ranges::upper_bound(all, offset, {}, &FunctionSymbol::begin);
  if (after == all.begin() || std::prev(after)->end <= offset) return {};
  return std::prev(after)->name;
}

}  // namespace fsdp::testing::device
