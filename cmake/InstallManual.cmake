# Makes the manual pages and the completions of an installation by asking each program for its own.
#   made: a folder to make them in; prefix: where they are installed
function(install_text program folder name)
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_FILE ${made}/${name} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} ${ARGN} ended with ${failed}: its manual cannot be installed")
  endif()
  file(INSTALL DESTINATION ${prefix}/${folder} TYPE FILE FILES ${made}/${name})
endfunction()

# install_manual(<name> <program>), by its path; of a program that is not built it says so
function(install_manual name program)
  if(NOT EXISTS "${program}")
    message(STATUS "${name} is not built, and left out")
    return()
  endif()
  file(MAKE_DIRECTORY ${made})
  install_text(${program} share/man/man1 ${name}.1 man)
  install_text(${program} share/bash-completion/completions ${name} completion bash)
  install_text(${program} share/zsh/site-functions _${name} completion zsh)
  install_text(${program} share/fish/vendor_completions.d ${name}.fish completion fish)
endfunction()
