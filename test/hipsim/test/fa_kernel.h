// SPDX-License-Identifier: MIT
// Flash attention forward sample (f16 or bf16 in, f32 sums), D = 64: WMMA on gfx1100 and gfx1201, MFMA on gfx90a and gfx942
#include <hip/hip_runtime.h>
#ifndef D
#define D 64
#endif
#ifndef BK
#define BK 32
#endif
#if defined(BF16)
typedef short elt;                    // raw bf16 bits
static __host__ __device__ __forceinline__ elt from_f(float f){ union{float f;unsigned u;}w; w.f=f; return (short)((w.u+0x7fff+((w.u>>16)&1))>>16); }
#else
typedef _Float16 elt;
static __host__ __device__ __forceinline__ elt from_f(float f){ return (elt)f; }
#endif
#if defined(__gfx1100__)
#define W 32
#define NA 16
#define NC 8
typedef elt afrag __attribute__((ext_vector_type(16))); typedef float cfrag __attribute__((ext_vector_type(8)));
#define KOFF(l) 0
#define CROW(l,i) (2*(i)+((l)>>4))
#ifdef BF16
#define MMA(a,b,c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a,b,c)
#else
#define MMA(a,b,c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a,b,c)
#endif
#elif defined(__gfx1201__)
#define W 32
#define NA 8
#define NC 8
typedef elt afrag __attribute__((ext_vector_type(8))); typedef float cfrag __attribute__((ext_vector_type(8)));
#define KOFF(l) (8*((l)>>4))
#define CROW(l,i) (8*((l)>>4)+(i))
#ifdef BF16
#define MMA(a,b,c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a,b,c)
#else
#define MMA(a,b,c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a,b,c)
#endif
#else
#define W 64
#define NA 4
#define NC 4
typedef elt afrag __attribute__((ext_vector_type(4))); typedef float cfrag __attribute__((ext_vector_type(4)));
#define KOFF(l) (4*((l)>>4))
#define CROW(l,i) (4*((l)>>4)+(i))
#if !defined(__HIP_DEVICE_COMPILE__)
#define MMA(a,b,c) (c)
#elif defined(BF16)
#define MMA(a,b,c) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a,b,c,0,0,0)
#else
#define MMA(a,b,c) __builtin_amdgcn_mfma_f32_16x16x16f16(a,b,c,0,0,0)
#endif
#endif
// grid (ceil(Sq/(16*nw)), BH); block nw*W; dynamic LDS = (2*BK*(D+8) + nw*16*BK)*2 bytes
extern "C" __global__ void __launch_bounds__(256) fa_fwd(const elt*Q,const elt*K,const elt*V,float*O,float*L,int Sq,int Sk,float scale,int causal){
  extern __shared__ char smem[];
  elt*sk=(elt*)smem, *sv=sk+BK*(D+8), *sp=sv+BK*(D+8);
  const int t=threadIdx.x, nt=blockDim.x, w=t/W, l=t%W, r=l&15, nw=nt/W;
  const int q0=(blockIdx.x*nw+w)*16, bh=blockIdx.y;
  Q+=(size_t)bh*Sq*D; K+=(size_t)bh*Sk*D; V+=(size_t)bh*Sk*D; O+=(size_t)bh*Sq*D; L+=(size_t)bh*Sq; sp+=w*16*BK;
  afrag qa[D/16];
  _Pragma("unroll") for(int c=0;c<D/16;c++) _Pragma("unroll") for(int k=0;k<NA;k++) qa[c][k]= q0+r<Sq ? Q[(q0+r)*D+c*16+KOFF(l)+k] : (elt)0;
  cfrag o[D/16]; float m[NC],s[NC];
  _Pragma("unroll") for(int i=0;i<NC;i++){m[i]=-3e38f;s[i]=0;} _Pragma("unroll") for(int c=0;c<D/16;c++) _Pragma("unroll") for(int i=0;i<NC;i++) o[c][i]=0;
  const float sc=scale*1.4426950408889634f;
  for(int k0=0;k0<Sk;k0+=BK){
    __syncthreads();
    for(int i=t;i<BK*D/8;i+=nt){ int row=i/(D/8), col=(i%(D/8))*8; 
      uint4 kv={0,0,0,0},vv={0,0,0,0}; if(k0+row<Sk){ kv=*(const uint4*)(K+(k0+row)*D+col); vv=*(const uint4*)(V+(k0+row)*D+col);} 
      *(uint4*)(sk+row*(D+8)+col)=kv; *(uint4*)(sv+row*(D+8)+col)=vv; }
    __syncthreads();
    cfrag x[BK/16];
    _Pragma("unroll") for(int j=0;j<BK/16;j++){ cfrag c={0};
      _Pragma("unroll") for(int d=0;d<D/16;d++){ afrag b; _Pragma("unroll") for(int k=0;k<NA;k++) b[k]=sk[(j*16+r)*(D+8)+d*16+KOFF(l)+k]; c=MMA(qa[d],b,c);} x[j]=c; }
    _Pragma("unroll") for(int i=0;i<NC;i++){ int q=q0+CROW(l,i); float mx=-3e38f;
      _Pragma("unroll") for(int j=0;j<BK/16;j++){ int key=k0+j*16+r; x[j][i]= (key<Sk && (!causal||key<=q+Sk-Sq)) ? x[j][i]*sc : -3e38f; mx=fmaxf(mx,x[j][i]); }
      _Pragma("unroll") for(int d=8;d;d>>=1) mx=fmaxf(mx,__shfl_xor(mx,d));
      float mn=fmaxf(m[i],mx), al=exp2f(m[i]-mn), sum=0; m[i]=mn;
      _Pragma("unroll") for(int j=0;j<BK/16;j++){ float p=exp2f(x[j][i]-mn); sum+=p; sp[CROW(l,i)*BK+j*16+r]=from_f(p); }
      _Pragma("unroll") for(int d=8;d;d>>=1) sum+=__shfl_xor(sum,d);
      s[i]=s[i]*al+sum; _Pragma("unroll") for(int c=0;c<D/16;c++) o[c][i]*=al; }
    __syncthreads();
    _Pragma("unroll") for(int j=0;j<BK/16;j++){ afrag a; _Pragma("unroll") for(int k=0;k<NA;k++) a[k]=sp[r*BK+j*16+KOFF(l)+k];
      _Pragma("unroll") for(int c=0;c<D/16;c++){ afrag b; _Pragma("unroll") for(int k=0;k<NA;k++) b[k]=sv[(j*16+KOFF(l)+k)*(D+8)+c*16+r]; o[c]=MMA(a,b,o[c]); } }
  }
  _Pragma("unroll") for(int i=0;i<NC;i++){ int q=q0+CROW(l,i); if(q<Sq){ _Pragma("unroll") for(int c=0;c<D/16;c++) O[q*D+c*16+r]=o[c][i]/s[i]; if(r==0) L[q]=m[i]*0.6931471805599453f+logf(s[i]); } }
}
