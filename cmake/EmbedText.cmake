# Writes a C++ source that defines the text of a file as a constant.
#   cmake -DFILE=<file> -DHEADER=<that declares it> -DNAMESPACE=<its> -DNAME=<its> -DOUTPUT=<source> -P EmbedText.cmake
file(READ "${FILE}" content)
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedText.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {

const char* const ${NAME} = R\"embedded(${content})embedded\";

}  // namespace ${NAMESPACE}
")
