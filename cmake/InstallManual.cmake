# Puts the manual pages and the completions into an installation, by asking each program for its own. Each is written
# where it belongs, with no copy in the build: several installations may run at once.
#   prefix: where they are installed, below $DESTDIR
function(install_text program file)
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} ${ARGN} ended with ${failed}: its manual cannot be installed")
  endif()
  set(path "$ENV{DESTDIR}${prefix}/${file}")
  message(STATUS "Installing: ${path}")
  file(WRITE "${path}" "${text}")
  file(CHMOD "${path}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endfunction()

# install_manual(<name> <program>), by its path; of a program that is not built it says so
function(install_manual name program)
  if(NOT EXISTS "${program}")
    message(STATUS "${name} is not built, and left out")
    return()
  endif()
  install_text(${program} share/man/man1/${name}.1 man)
  install_text(${program} share/bash-completion/completions/${name} completion bash)
  install_text(${program} share/zsh/site-functions/_${name} completion zsh)
  install_text(${program} share/fish/vendor_completions.d/${name}.fish completion fish)
endfunction()
