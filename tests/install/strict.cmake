# Warnings in the headers of an installed fsdp::fsdp are errors.
add_compile_options(-Wall -Wextra -Werror)
cmake_language(DEFER CALL set_target_properties fsdp::fsdp PROPERTIES SYSTEM OFF)
