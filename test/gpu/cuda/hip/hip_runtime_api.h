/* hip_runtime_api.h - HIP's names for the calls of CUDA that the GPU tests make: with -Itest/gpu/cuda they are built for NVIDIA.
 *
 * Those that attn_hip.c has under nvcc are its own: names.h, which hip.mk takes from it. Here are the rest. */
#ifndef HIP_ON_CUDA
#define HIP_ON_CUDA
#include <cuda_runtime_api.h>
#ifndef __cplusplus
typedef struct cudaDeviceProp cudaDeviceProp;
typedef struct cudaPointerAttributes cudaPointerAttributes;
typedef enum cudaStreamCaptureMode cudaStreamCaptureMode;
#endif
#include "names.h"
#define hipErrorUnknown cudaErrorUnknown
#define hipErrorNotReady cudaErrorNotReady
#define hipDeviceAttribute_t enum cudaDeviceAttr
#define hipFuncAttribute enum cudaFuncAttribute
#define hipMemcpyKind enum cudaMemcpyKind
#define hipMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define hipDeviceGetAttribute cudaDeviceGetAttribute
#define hipDeviceSynchronize cudaDeviceSynchronize
#define hipFuncSetAttribute cudaFuncSetAttribute
#define hipHostRegister cudaHostRegister
#define hipHostUnregister cudaHostUnregister
#define hipMallocManaged cudaMallocManaged
#define hipMemAttachGlobal cudaMemAttachGlobal
#define hipMemcpy cudaMemcpy
#define hipMemcpy2DAsync cudaMemcpy2DAsync
#define hipStreamCreate cudaStreamCreate
#define hipStreamWaitEvent cudaStreamWaitEvent
#define hipEventCreateWithFlags cudaEventCreateWithFlags
#endif
