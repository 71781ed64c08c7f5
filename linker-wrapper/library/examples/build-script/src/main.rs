//! Calls a kernel that the build script has compiled.

unsafe extern "C" {
    /// Multiplies the values on the GPU. Returns the error of the CUDA runtime.
    fn scale(values: *mut f32, count: i32) -> i32;
}

fn main() {
    let mut values = [1.0, 2.0, 3.0];
    // SAFETY: there are three values.
    match unsafe { scale(values.as_mut_ptr(), 3) } {
        0 => println!("{values:?}"),
        // Of a computer without a GPU or its driver.
        error => println!("error {error} of the CUDA runtime"),
    }
}
