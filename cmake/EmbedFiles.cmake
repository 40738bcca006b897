# Writes a C++ source that defines a function from the names of a folder's files to their contents.
#   cmake -DFOLDER=<folder> -DHEADER=<that declares it> -DFUNCTION=<its name> -DOUTPUT=<source> -P EmbedFiles.cmake
# Without a name, it returns all names, in order.
file(GLOB files ${FOLDER}/*)
set(entries "")
foreach(path ${files})
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" content)
  string(APPEND entries "    {\"${name}\", R\"asset(${content})asset\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedFiles.cmake.
#include \"${HEADER}\"

#include <map>

namespace trainer {

namespace {
const std::map<std::string_view, std::string_view>& files_of_${FUNCTION}() {
  static const std::map<std::string_view, std::string_view> files = {
${entries}  };
  return files;
}
}  // namespace

std::string_view ${FUNCTION}(std::string_view name) { return files_of_${FUNCTION}().at(name); }

std::vector<std::string_view> ${FUNCTION}() {
  std::vector<std::string_view> names;
  for (const auto& file : files_of_${FUNCTION}()) names.push_back(file.first);
  return names;
}

}  // namespace trainer
")
