#pragma once

#include <cstddef>
#include <cstdint>

// The words of NVIDIA's driver interface (cuda.h) that the fake driver speaks, by their numbers.

namespace ramet_fake {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
};

enum DeviceAttribute : int {
  kMostThreadsPerBlock = 1,
  kMostBlockX = 2,
  kMostGridX = 5,
  kMostGridY = 6,
  kMostGridZ = 7,
  kSharedPerBlock = 8,
  kWarpSize = 10,
  kRegistersPerBlock = 12,
  kClockRate = 13,
  kMultiprocessors = 16,
  kPciBus = 33,
  kPciDevice = 34,
  kMemoryClockRate = 36,
  kMemoryBusWidth = 37,
  kL2Bytes = 38,
  kAsyncEngines = 40,
  kUnifiedAddressing = 41,
  kPciDomain = 50,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kThreadsPerMultiprocessor = 39,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kRegisteredHostPointers = 91,
  kSharedPerBlockOptIn = 97,
  kReservedSharedPerBlock = 111,
};

enum FunctionAttribute : int {
  kFunctionThreads = 0,
  kFunctionShared = 1,
  kFunctionConstant = 2,
  kFunctionLocal = 3,
  kFunctionRegisters = 4,
  kFunctionDynamicShared = 8,
  kFunctionCarveout = 9,
};

using DevicePointer = unsigned long long;
using HostFunction = void (*)(void* data);

}  // namespace ramet_fake
