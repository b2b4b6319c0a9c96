# The build targets baseline x86-64: one program runs on any CPU and chooses kernels when it starts, through
# Highway or through files named by the instructions they need. Those files get the flags here, and are left
# out on other architectures.
#
#   *_avx2.cc        AVX2, FMA, F16C
#   *_avx512.cc      AVX-512 F, BW, DQ, VL
#   *_avx512bf16.cc  the same and BF16
#   *_amx.cc         the same and tiles of bf16
function(ramet_isa_flags sources_variable)
  set(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c)
  set(kept)
  foreach(source ${${sources_variable}})
    set(flags)
    if(source MATCHES "_avx2\\.cc$")
      set(flags -mavx2 -mfma -mf16c)
    elseif(source MATCHES "_avx512\\.cc$")
      set(flags ${avx512})
    elseif(source MATCHES "_avx512bf16\\.cc$")
      set(flags ${avx512} -mavx512bf16)
    elseif(source MATCHES "_amx\\.cc$")
      set(flags ${avx512} -mavx512bf16 -mamx-tile -mamx-bf16)
    endif()
    if(flags)
      if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        continue()
      endif()
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
    endif()
    list(APPEND kept ${source})
  endforeach()
  set(${sources_variable} ${kept} PARENT_SCOPE)
endfunction()
