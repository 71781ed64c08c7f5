#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
int main(int c,char**v){cuInit(0);CUdevice d;cuDeviceGet(&d,0);CUcontext x;cuDevicePrimaryCtxRetain(&x,d);cuCtxSetCurrent(x);
for(int i=1;i<c;i++){FILE*f=fopen(v[i],"rb");static char b[1<<20];size_t n=fread(b,1,sizeof b,f);fclose(f);CUmodule m;CUresult r=cuModuleLoadData(&m,b);
const char*s;cuGetErrorName(r,&s);printf("%s %d %s",v[i],r,s);if(!r){CUfunction k;r=cuModuleGetFunction(&k,m,"k");int bin=0,ptx=0;cuFuncGetAttribute(&bin,CU_FUNC_ATTRIBUTE_BINARY_VERSION,k);cuFuncGetAttribute(&ptx,CU_FUNC_ATTRIBUTE_PTX_VERSION,k);
CUdeviceptr p;cuMemAlloc(&p,4);void*a[]={&p};r=cuLaunchKernel(k,1,1,1,1,1,1,0,0,a,0);int h=0;cuMemcpyDtoH(&h,p,4);printf(" binary %d ptx %d result %d %d",bin,ptx,h,r);}puts("");}}
