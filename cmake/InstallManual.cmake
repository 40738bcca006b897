# Makes the manual page and the completions of an installation by asking the program for them.
#   program: fsdp-train; made: a folder to make them in; prefix: where they are installed
function(install_text folder name)
  execute_process(COMMAND ${program} ${ARGN} OUTPUT_FILE ${made}/${name} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} ${ARGN} ended with ${failed}: its manual cannot be installed")
  endif()
  file(INSTALL DESTINATION ${prefix}/${folder} TYPE FILE FILES ${made}/${name})
endfunction()

file(MAKE_DIRECTORY ${made})
install_text(share/man/man1 fsdp-train.1 man)
install_text(share/bash-completion/completions fsdp-train completion bash)
install_text(share/zsh/site-functions _fsdp-train completion zsh)
install_text(share/fish/vendor_completions.d fsdp-train.fish completion fish)
