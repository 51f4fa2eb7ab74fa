"""Sentence templates over the word lists, by topic, and their random expansion.

`{slot}` is an entry of a word list or one of `RULES`; a template is expanded from left to right
until no brace is left, so rules may nest. `a` before a vowel becomes `an`, the first letter is
raised, and a missing final mark is a full stop.
"""

import re
from random import Random

from training.text.words import slots

RULES: dict[str, list[str]] = {
    "number": ["{digit}", "{teen}", "{tens}", "{tens}-{digit}", "{digit} hundred"],
    "many": ["two", "three", "four", "five", "six", "{teen}", "{tens}", "{tens}-{digit}"],
    "year": ["nineteen {tens}-{digit}", "two thousand and {digit}", "twenty {teen}"],
    "clock": [
        "{hour} o'clock",
        "half past {hour}",
        "quarter to {hour}",
        "quarter past {hour}",
        "{hour} thirty",
        "{hour} fifteen",
        "ten past {hour}",
        "twenty to {hour}",
    ],
    "date": ["the {ordinal} of {month}", "{month} {ordinal}", "{weekday}", "{weekday}, {month} {ordinal}"],
    "where": ["in {city}", "at the {place}", "in the {room}", "near the {nature}", "in {country}"],
    "who": ["{name}", "{owner} {family}", "the {person}", "{name} and {name}", "the old {person}"],
    "one": ["{name}", "{owner} {family}", "the {person}", "the young {person}", "nobody", "everyone"],
    "obj": ["the {thing}", "a {thing}", "{owner} {thing}", "the {color} {thing}", "a {quality} {thing}",
            "the {size} {thing}", "{many} tickets", "some {food}", "{owner} {clothes}"],
    "eat": ["{food}", "{fruit}", "{food} and {food}", "some {fruit}", "{food} with {food}"],
    "please": ["", "", ", please"],
    "item": ["{food}", "{fruit}", "{drink}", "{clothes}", "{many} {fruit}", "a {thing}", "{material}"],
    "noun": ["{thing}", "{animal}", "{place}", "{vehicle}", "{nature}", "{person}", "{device}",
             "{company_thing}", "{media}", "{problem}", "{family}", "{body}", "{instrument}"],
    "adj": ["{size}", "{quality}", "{color}", "{mood}", "{weather}"],
}

TOPICS: dict[str, list[str]] = {
    "home": [
        "Turn on the {device} in the {room}{please}.",
        "Turn off the {device}{please}.",
        "Turn the lights off in the {room}{please}.",
        "Please switch the {device} on at {clock}.",
        "Set the temperature to {number} degrees.",
        "Set a timer for {many} {unit_time}.",
        "Set the {room} lights to {color}.",
        "Wake me up at {clock} on {weekday}.",
        "Open the {opener} in the {room}{please}.",
        "Close the {opener} before you leave.",
        "Play some {genre} music in the {room}.",
        "Play the next {media}{please}.",
        "Stop the {media} and turn down the volume.",
        "Is the {device} in the {room} still on?",
        "Add {eat} to the shopping list.",
        "Remind me to {infinitive} {obj} {moment}.",
        "Call {one} {moment}.",
        "Lock the front door at {clock}.",
        "Make the {room} {adverb} warm.",
        "Send a message to {name}.",
        "The {device} in {owner} {room} is broken.",
        "Increase the brightness by {number} percent.",
    ],
    "numbers": [
        "My phone number is {digit} {digit} {digit}, {digit} {digit} {digit} {digit}.",
        "It costs {number} {unit}.",
        "The answer is {number}.",
        "{number} plus {number} is {number}.",
        "{number} minus {digit} makes {number}.",
        "There are {many} {fruit} in the basket.",
        "She has {many} {unit} left.",
        "The room number is {digit} {digit} {digit}.",
        "We counted {many} {plural} {where}.",
        "He is {many} years old.",
        "{owner} {family} was born in {year}.",
        "The {place} was built in {year}.",
        "It is {many} {unit} from here to {city}.",
        "Chapter {number}, page {number}.",
        "Please count from {digit} to {teen}.",
        "More than {many} thousand people live here.",
    ],
    "time": [
        "What time is it in {city}?",
        "It is {clock} now.",
        "The {vehicle} to {city} leaves at {clock}.",
        "The {place} opens at {clock} and closes at {clock}.",
        "We will meet {where} on {date} at {clock}.",
        "Today is {weekday}, the {ordinal} of {month}.",
        "{owner} birthday is on {date}.",
        "The {company_thing} was moved to {date}.",
        "I will be back in {many} {unit_time}.",
        "They stayed there for {many} {unit_time}.",
        "It takes about {many} {unit_time} by {vehicle}.",
        "In {month} the days are {size}.",
        "When does the {media} start {moment}?",
        "We usually have {meal} at {clock}.",
        "{moment} is too late.",
        "See you on {weekday} {daypart}.",
    ],
    "weather": [
        "It is {weather} and {weather} {moment}.",
        "Will it be {weather} in {city} {moment}?",
        "How is the weather {where}?",
        "There will be {sky} and {sky} in {country}.",
        "The {season} in {country} is {adverb} {weather}.",
        "Take an umbrella, it will be {weather}.",
        "We had a lot of {sky} in {month}.",
        "The temperature will fall to {number} degrees {moment}.",
        "I like {season} more than {season}.",
        "After the {sky} came the {sky}.",
    ],
    "food": [
        "I would like {eat} and a cup of {drink}.",
        "For {meal} we had {eat}.",
        "Can I have a glass of {drink}{please}?",
        "{who} {frequency} eat {eat} for {meal}.",
        "Do you want {eat} or {eat}?",
        "This {food} tastes {adverb} good.",
        "Put the {food} and the {food} on the table.",
        "Mix the {food} with {digit} spoons of {food}.",
        "Boil the {food} for {many} minutes.",
        "We need {item}, {item}, {item} and {item}.",
        "The waiter brought {eat} and two bottles of {drink}.",
        "My {family} makes the best {food} in {city}.",
        "{name} does not like {eat}.",
        "There is no {drink} in the fridge.",
        "Who wants more {drink}?",
    ],
    "people": [
        "{who} went to {city} by {vehicle}.",
        "{one} is {adverb} {mood} {moment}.",
        "{name} works for a {job_place} in {city}.",
        "{owner} {family} is a {person}.",
        "{name} plays {sport} with {owner} {family}.",
        "{one} can play the {instrument}.",
        "{pronoun} {past_do} {obj} {where}.",
        "{who} {past_go} to the {place} {manner}.",
        "Why are you so {mood}?",
        "{name} speaks {language} and {language}.",
        "{owner} {body} hurts, I should see a doctor.",
        "{who} {act_past} {manner}.",
        "I want to {act} with {one} {moment}.",
        "{name} loves {hobby} and {hobby}.",
        "{one} teaches {subject} at the university.",
        "Do you know {one}?",
        "Where is {one}?",
        "{name} wore a {color} {thing} and {color} {clothes}.",
        "{pronoun} {frequency} {act} {moment}.",
        "{one} gave me {obj} and {obj}.",
        "{owner} {family} and {owner} {family} {act_past} {moment}.",
    ],
    "work": [
        "The {company_thing} is ready.",
        "Please send me the {company_thing} {moment}.",
        "We have a {problem} with the {company_thing}.",
        "Did you read the {company_thing} from {name}?",
        "The {company_thing} with {one} starts at {clock}.",
        "I finished my {school_thing} {moment}.",
        "The {subject} {school_thing} was {adverb} hard.",
        "We study {subject} and {subject} at school.",
        "{name} has a good {problem}.",
        "Cancel the {company_thing} on {date}.",
        "{one} forgot the {company_thing} again.",
        "How many {plural} do we need {moment}?",
        "The price went up by {number} percent.",
    ],
    "travel": [
        "How do I get to the {place}?",
        "The {place} is {preposition} {place}.",
        "Turn left at the {place} and then go straight.",
        "Turn right after {number} meters.",
        "I would like two tickets to {city}{please}.",
        "We travelled from {city} to {city} by {vehicle}.",
        "The {vehicle} is {many} minutes late.",
        "Have you ever been to {country}?",
        "From the {nature} you can see the {nature}.",
        "There is a {quality} {place} {preposition} {nature}.",
        "The {vehicle} stopped {preposition} {place}.",
        "Next {season} we want to visit {country} and {country}.",
        "Where did you park the {vehicle}?",
        "The capital of {country} is {adverb} {quality}.",
    ],
    "story": [
        "Once upon a time a {size} {animal} lived in a {nature}.",
        "The {animal} and the {animal} were friends.",
        "One {daypart} the {animal} {past_go} to the {nature}.",
        "A {color} {animal} sat {preposition} {nature}.",
        "The {person} {past_do} a {quality} {thing} {preposition} {nature}.",
        "Nobody knew where the {animal} came from.",
        "The {size} {animal} was {mood}, but the {animal} was {mood}.",
        "{name} {say} {manner}, and the {animal} {act_past}.",
        "Then {one} {past_do} {obj}.",
        "In the end they all lived in the {nature}.",
        "The house was made of {material} and {material}.",
        "Suddenly the {sky} stopped and the {nature} was {quality}.",
        "She looked at the {nature} and {act_past}.",
        "He opened the {thing} and saw a {color} {thing}.",
        "When {one} {act_past}, the {animal} {act_past} too.",
        "After {many} days the {person} {past_go} home.",
    ],
    "things": [
        "The {thing} is {preposition} {thing}.",
        "Where is {owner} {color} {thing}?",
        "I {past_do} {obj} {moment}.",
        "This {thing} is {adverb} {quality}.",
        "The {thing} is made of {material}.",
        "Is this {owner} {thing} or {owner} {thing}?",
        "{pronoun} will {infinitive} the {thing} {moment}.",
        "Can you {infinitive} the {quality} {thing}?",
        "My {clothes} and my {thing} are {color}.",
        "The {noun} and the {noun} are {adj}.",
        "A {adj} {noun}, a {adj} {noun} and a {adj} {noun}.",
        "{noun}, {noun}, {noun}, {noun}.",
        "That {noun} is not {adj}.",
        "The {adj} {noun} is {preposition} {noun}.",
        "My {animal} likes {hobby}.",
        "The {color} {vehicle} belongs to {one}.",
    ],
    "talk": [
        "{greeting}, {name}.",
        "{greeting}, how are you?",
        "{farewell}, {name}.",
        "{thanks}, {name}.",
        "{reaction}.",
        "{reaction}, {name}.",
        "{question}?",
        "{remark}.",
        "{question}?",
        "{thanks}.",
        "{greeting}.",
        "{farewell}.",
    ],
}

WEIGHTS = {"talk": 0.6, "things": 1.3}
MAX_WORDS = 20
_SLOT = re.compile(r"\{(\w+)\}")
_VOWEL = re.compile(r"\b([Aa]) (?=[aeiouAEIO])(?!one\b|university|European)")


def vowel_article(text: str) -> str:
    """Writes `a` before a vowel as `an`."""
    return _VOWEL.sub(r"\1n ", text)


class Grammar:
    """Draws sentences; the same `Random` state gives the same sentences."""

    def __init__(self) -> None:
        self._slots = slots() | RULES
        self._templates = [
            (template, WEIGHTS.get(topic, 1.0) / len(templates))
            for topic, templates in TOPICS.items()
            for template in templates
        ]

    def _expand(self, text: str, rng: Random) -> str:
        while match := _SLOT.search(text):
            text = text[: match.start()] + rng.choice(self._slots[match[1]]) + text[match.end() :]
        return text

    def sentence(self, rng: Random) -> str:
        """Returns one sentence of 1 to `MAX_WORDS` words, cased and punctuated."""
        templates, weights = zip(*self._templates, strict=True)
        while True:
            (template,) = rng.choices(templates, weights)
            text = self._expand(template, rng)
            text = vowel_article(text.replace("?.", "?"))
            if len(text.split()) <= MAX_WORDS:
                return text[0].upper() + text[1:]

    def words(self) -> set[str]:
        """Returns every different word that the templates and the word lists hold, lower-cased."""
        texts = [template for template, _ in self._templates]
        texts += [entry for entries in self._slots.values() for entry in entries]
        found = re.findall(r"[a-z']+", _SLOT.sub(" ", " ".join(texts)).lower())
        return {word.strip("'") for word in found} - {""}
