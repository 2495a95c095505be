//! The libraries of functions of the process: what FUNCTION changes and FCALL looks up. Running functions is `scripts/run.rs`.
//!
//! All libraries together are an immutable snapshot. A change makes a new one, and a new version; each thread takes the new snapshot when it
//! next needs one and finds the version changed, so that calling a function takes no lock.

mod dump;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::scripts::{Flags, Library as Code, Registered, is_name};

pub(crate) use dump::{dump, restore};

use crate::scripts::Reach;

/// Bytes that a library and a function take beside their texts.
const OVERHEAD_BYTES: u64 = 160;

/// A function that FCALL can call.
pub struct Function {
    pub code: Arc<Code>,
    pub name: Box<[u8]>,
    pub flags: Flags,
    pub description: Option<Box<[u8]>>,
    pub reach: Reach,
}

/// A library with its functions, in the order in which it registers them.
pub struct Library {
    pub code: Arc<Code>,
    pub functions: Vec<Arc<Function>>,
}

/// All libraries at one time.
#[derive(Clone, Default)]
pub struct Libraries {
    by_name: BTreeMap<Box<[u8]>, Arc<Library>>,
    functions: HashMap<Box<[u8]>, Arc<Function>>,
    /// Differs for any two of them; 0 is the empty one at the start.
    pub version: u64,
}

/// What happens to a library whose name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    Refuse,
    Replace,
}

impl Library {
    /// What a library has registered, if all of it can be.
    pub fn new(code: Arc<Code>, registered: Vec<Registered>) -> Result<Arc<Library>, Vec<u8>> {
        let mut functions: Vec<Arc<Function>> = Vec::with_capacity(registered.len());
        for Registered { name, flags, description } in registered {
            if !is_name(&name) {
                let text = "ERR Function names can only contain letters, numbers, or underscores(_) and must be at least one character long";
                return Err(text.as_bytes().to_vec());
            }
            if functions.iter().any(|known| known.name == name) {
                return Err(b"ERR Function already exists in the library".to_vec());
            }
            let code = Arc::clone(&code);
            functions.push(Arc::new(Function { code, name, flags, description, reach: Reach::default() }));
        }
        if functions.is_empty() {
            return Err(b"ERR No functions registered".to_vec());
        }
        Ok(Arc::new(Library { code, functions }))
    }
}

impl Libraries {
    /// The function of this name.
    pub fn function(&self, name: &[u8]) -> Option<&Arc<Function>> {
        self.functions.get(name)
    }

    /// All libraries by their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Libraries and functions.
    pub fn counts(&self) -> (u64, u64) {
        (self.by_name.len() as u64, self.functions.len() as u64)
    }

    /// Bytes of all texts and what is kept with them.
    pub fn bytes(&self) -> u64 {
        let of_function = |function: &Arc<Function>| {
            let described = function.description.as_ref().map_or(0, |text| text.len());
            OVERHEAD_BYTES + (function.name.len() + described) as u64
        };
        let of_library = |library: &Arc<Library>| {
            let code = &library.code;
            let functions: u64 = library.functions.iter().map(of_function).sum();
            OVERHEAD_BYTES + (code.name.len() + code.source.len()) as u64 + functions
        };
        self.iter().map(of_library).sum()
    }

    /// Whether there is a library of this name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.by_name.contains_key(name)
    }

    /// An error if there is a library of this name.
    pub fn refuse_taken(&self, name: &[u8]) -> Result<(), Vec<u8>> {
        if self.has(name) {
            return Err([b"ERR Library '", name, b"' already exists"].concat());
        }
        Ok(())
    }

    /// Adds a library. Nothing changes if its name, or that of one of its functions, is taken.
    pub fn add(&mut self, library: Arc<Library>, taken: Taken) -> Result<(), Vec<u8>> {
        let name = &library.code.name;
        if taken == Taken::Refuse {
            self.refuse_taken(name)?;
        }
        let old = self.by_name.get(name);
        let is_old = |known: &Function| old.is_some_and(|old| Arc::ptr_eq(&old.code, &known.code));
        for function in &library.functions {
            if self.functions.get(&function.name).is_some_and(|known| !is_old(known)) {
                return Err([b"ERR Function ", function.name.as_ref(), b" already exists"].concat());
            }
        }
        self.remove(&library.code.name.clone());
        for function in &library.functions {
            self.functions.insert(function.name.clone(), Arc::clone(function));
        }
        self.by_name.insert(library.code.name.clone(), library);
        Ok(())
    }

    /// Removes a library. Whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name);
        }
        true
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.by_name.clear();
        self.functions.clear();
    }
}

/// Where the threads find the present libraries.
#[derive(Default)]
pub struct Store {
    /// That of `present`. Read by every FCALL, written by FUNCTION only.
    version: AtomicU64,
    present: Mutex<Arc<Libraries>>,
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, Arc<Libraries>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present libraries.
    pub fn present(&self) -> Arc<Libraries> {
        Arc::clone(&self.lock())
    }

    /// Makes `mine` the present libraries, if it is not.
    #[inline]
    pub fn refresh(&self, mine: &mut Arc<Libraries>) {
        // Acquire: pairs with the store in `change`; the snapshot itself comes out of the lock. A client that has the reply of its FUNCTION
        // LOAD calls on the same thread, or has told another client, through a socket, after the store.
        if self.version.load(Ordering::Acquire) != mine.version {
            *mine = self.present();
        }
    }

    /// Changes the libraries, for all threads at once, or not at all.
    pub fn change<R>(&self, change: impl FnOnce(&mut Libraries) -> Result<R, Vec<u8>>) -> Result<R, Vec<u8>> {
        let mut present = self.lock();
        let mut next = Libraries::clone(&present);
        let result = change(&mut next)?;
        next.version += 1;
        let version = next.version;
        *present = Arc::new(next);
        self.version.store(version, Ordering::Release);
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let code = Code::new(format!("#!lua name={name}\n").as_bytes())
            .unwrap_or_else(|_| panic!("a good first line"));
        let registered = functions.iter().map(|name| Registered {
            name: name.as_bytes().into(),
            flags: Flags::default(),
            description: None,
        });
        Library::new(Arc::new(code), registered.collect()).unwrap_or_else(|_| panic!("good names"))
    }

    #[test]
    fn a_change_that_fails_changes_nothing() {
        let store = Store::default();
        let add = |library, taken| store.change(|libraries| libraries.add(library, taken));
        assert_eq!(add(library("one", &["a", "b"]), Taken::Refuse), Ok(()));
        assert_eq!(add(library("two", &["c"]), Taken::Refuse), Ok(()));
        let mut mine = store.present();
        let text = |result: Result<(), Vec<u8>>| String::from_utf8(result.unwrap_err()).expect("text");
        assert_eq!(text(add(library("one", &["z"]), Taken::Refuse)), "ERR Library 'one' already exists");
        assert_eq!(text(add(library("one", &["z", "c"]), Taken::Replace)), "ERR Function c already exists");
        assert_eq!(store.present().version, mine.version);
        assert_eq!(add(library("one", &["b", "z"]), Taken::Replace), Ok(()));
        assert!(mine.function(b"a").is_some(), "a snapshot stays as it is");
        store.refresh(&mut mine);
        assert!(mine.function(b"a").is_none() && mine.function(b"z").is_some());
        assert_eq!(mine.counts(), (2, 3));
        assert_eq!(store.change(|libraries| Ok(libraries.remove(b"one"))), Ok(true));
        assert_eq!(store.present().counts(), (1, 1));
    }

    #[test]
    fn functions_have_good_names_once() {
        let code = Arc::new(Code::new(b"#!lua name=l\n").unwrap_or_else(|_| panic!("a good first line")));
        let one = |name: &str| Registered {
            name: name.as_bytes().into(),
            flags: Flags::default(),
            description: None,
        };
        for names in [vec![], vec!["a-b"], vec![""], vec!["a", "a"]] {
            let registered = names.iter().map(|name| one(name)).collect();
            assert!(Library::new(Arc::clone(&code), registered).is_err(), "{names:?}");
        }
    }
}
