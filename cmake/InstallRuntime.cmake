# Copies the shared libraries that installed programs need, and the licences of all that is in the package.
#   programs, libraries, documents: folders of the installation
#   rpath: where the programs look for libraries; package_rpath: where they look afterwards
#   torch: the folder of LibTorch; headers: of other projects, compiled into the programs; source: this repository
set(programs "$ENV{DESTDIR}${programs}")
set(libraries "$ENV{DESTDIR}${libraries}")
set(documents "$ENV{DESTDIR}${documents}")
set(licenses "${documents}/licenses")
file(REAL_PATH "${torch}" torch)

file(GLOB executables ${programs}/fsdp-*)
file(GLOB modules ${libraries}/fsdp_*.so)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${executables} MODULES ${modules} RESOLVED_DEPENDENCIES_VAR needed
     PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|dl|gcc_s|m|pthread|rt|stdc\\+\\+)\\.so")

# copy_license(<package>): of a Debian package, from where dpkg puts it.
function(copy_license package)
  file(READ "/usr/share/doc/${package}/copyright" text)
  file(WRITE "${licenses}/${package}" "${text}")
endfunction()

# copy_license_of(<file>): of the Debian package that has this file.
function(copy_license_of file)
  file(REAL_PATH "${file}" path)
  execute_process(COMMAND dpkg-query --search "${path}" OUTPUT_VARIABLE owner ERROR_QUIET)
  if(NOT owner MATCHES "^([^:, ]+)")
    message(FATAL_ERROR "${file} is of no Debian package, and a package must have its licence. Make packages on Debian or "
                        "a relative, with the libraries that scripts/setup installs.")
  endif()
  copy_license(${CMAKE_MATCH_1})
endfunction()

foreach(library ${needed})
  get_filename_component(name "${library}" NAME)
  if(name MATCHES "cuda|cudart|amdhip")
    message(FATAL_ERROR "The programs need ${name}: their LibTorch is one with CUDA, of several GB. Make packages with a "
                        "LibTorch for CPUs.")
  endif()
  file(REAL_PATH "${library}" path)
  file(COPY_FILE "${path}" "${libraries}/${name}" ONLY_IF_DIFFERENT)
  string(FIND "${path}" "${torch}/" in_torch)
  if(NOT in_torch EQUAL 0)
    copy_license_of("${path}")
  endif()
endforeach()
foreach(header ${headers})
  copy_license_of("${header}")
endforeach()

# LibTorch from pip has its licences beside it, but not those of GCC's OpenMP and Intel's MKL, which it contains.
file(GLOB torch_licenses "${torch}/../torch-*.dist-info/licenses")
if(NOT torch_licenses)
  message(FATAL_ERROR "There are no licences of LibTorch beside ${torch}, and a package must have them. Make packages with "
                      "the LibTorch of scripts/setup.")
endif()
file(COPY "${torch_licenses}/" DESTINATION "${licenses}/libtorch")
file(COPY "${source}/packaging/licenses/intel-mkl.txt" DESTINATION "${licenses}/libtorch")
copy_license(libgomp1)

file(READ "${source}/LICENSE" text)
file(WRITE "${documents}/copyright" "fsdp-train, fsdp-convert and fsdp-plan have this license. Libraries that they contain have those in \
the folder licenses.\n\n${text}")

# The programs no longer look for a LibTorch of the machine that they were built on.
foreach(program ${executables})
  file(RPATH_CHANGE FILE "${program}" OLD_RPATH "${rpath}" NEW_RPATH "${package_rpath}")
endforeach()
